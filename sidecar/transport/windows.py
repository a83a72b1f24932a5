"""Windows: one job object for each child, closed with the sidecar, so that nothing it started outlives it.

The handle of the job is held by this process alone; the system ends every process of the job when that handle goes, however the
sidecar ends. Children are started suspended, put into the job, and resumed, so that none escapes in between.
"""

import sys

CREATE_SUSPENDED = 0x00000004
CREATE_NO_WINDOW = 0x08000000
JOB_OBJECT_EXTENDED_LIMIT_INFORMATION = 9
JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE = 0x2000
TERMINATED_EXIT_CODE = 1

if sys.platform == "win32":
    import asyncio
    import ctypes
    import subprocess
    import threading
    from ctypes import wintypes
    from typing import Any, cast

    import anyio

    from sidecar.transport.exits import ExitStatus

    class _BasicLimits(ctypes.Structure):
        _fields_ = [
            ("PerProcessUserTimeLimit", ctypes.c_int64),
            ("PerJobUserTimeLimit", ctypes.c_int64),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        ]

    class _ExtendedLimits(ctypes.Structure):
        _fields_ = [
            ("BasicLimitInformation", _BasicLimits),
            ("IoInfo", ctypes.c_uint64 * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        ]

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.CreateJobObjectW.restype = wintypes.HANDLE
    _kernel.SetInformationJobObject.argtypes = [wintypes.HANDLE, ctypes.c_int, ctypes.c_void_p, wintypes.DWORD]
    _kernel.AssignProcessToJobObject.argtypes = [wintypes.HANDLE, wintypes.HANDLE]
    _kernel.TerminateJobObject.argtypes = [wintypes.HANDLE, wintypes.UINT]
    _kernel.CloseHandle.argtypes = [wintypes.HANDLE]
    _resume = ctypes.WinDLL("ntdll").NtResumeProcess
    _resume.argtypes = [wintypes.HANDLE]

    def _checked(value: int) -> int:
        if not value:
            raise ctypes.WinError(ctypes.get_last_error())
        return value

    class JobStatus:
        """Stands where the guardian's status stands elsewhere: same events, same ``end`` and ``abort``."""

        def __init__(self, process: "subprocess.Popen[bytes]", keep: bool) -> None:
            self.started, self.finished, self.closed = anyio.Event(), anyio.Event(), anyio.Event()
            self.pid: int | None = process.pid
            self.spawn_error: str | None = None
            self.status: ExitStatus | None = None
            self._process = process
            self._keep = keep
            self._job = _checked(_kernel.CreateJobObjectW(None, None))
            limits = _ExtendedLimits()
            limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
            size = ctypes.sizeof(limits)
            _checked(
                _kernel.SetInformationJobObject(self._job, JOB_OBJECT_EXTENDED_LIMIT_INFORMATION, ctypes.byref(limits), size)
            )
            handle = int(cast("Any", process)._handle)  # noqa: SLF001 - Popen offers no other way to it
            _checked(_kernel.AssignProcessToJobObject(self._job, handle))
            _resume(handle)
            self.started.set()
            loop = asyncio.get_running_loop()
            threading.Thread(target=self._wait, args=(loop,), daemon=True, name="agent-exit").start()

        def end(self) -> None:
            """End every process of the job."""
            if self._job:
                _kernel.TerminateJobObject(self._job, TERMINATED_EXIT_CODE)

        def abort(self) -> None:
            """Close the job, which ends what is left in it; what may go on does so until the sidecar ends."""
            if self._job and not (self._keep and self.status is not None):
                _kernel.CloseHandle(self._job)
                self._job = 0

        def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
            code = self._process.wait()
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._ended, code)

        def _ended(self, code: int) -> None:
            self.status = ExitStatus(code)
            self.finished.set()
            if not self._keep:
                self.end()
            self.abort()
            self.closed.set()
