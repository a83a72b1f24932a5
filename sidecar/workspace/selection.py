"""Which session an operation means when it does not say."""

from sidecar.errors import EditorFault
from sidecar.workspace.actor import SessionActor
from sidecar.workspace.operation import Param, Params
from sidecar.workspace.sessions import Workspace, existing_folder
from sidecar.workspace.uris import uri_to_path

SESSION = Param("sessionId", doc="The sidecar's own session id.")
WORKSPACE = Param("workspace", doc="Folder URI (or absolute path) of the workspace.")
WHICH = (SESSION, WORKSPACE)


def folder_of(workspace: Workspace, given: str | None) -> str:
    """Return the folder a URI or path names, else the active document's, else the only or first workspace folder."""
    if given is not None:
        path = uri_to_path(given) if ":" in given and not given.startswith("/") else given
        if path is None:
            raise EditorFault(f"workspace {given!r} is not a file URI or an absolute path")
        return existing_folder(path)
    if workspace.active_folder is not None:
        return workspace.active_folder
    if workspace.folders:
        return workspace.folders[0]
    return existing_folder(".")


def find_session(workspace: Workspace, params: Params) -> SessionActor | None:
    """Return the session meant: the one named, else the newest of the folder meant, else the only one; None when there is none.

    Raises ``EditorFault`` that lists them when several would do.
    """
    if (session_id := params.get("sessionId")) is not None:
        return workspace.actor(session_id)
    actors = workspace.actors()
    wanted = params.get("workspace")
    folder = folder_of(workspace, wanted) if wanted is not None else workspace.active_folder
    if folder is not None:
        here = [actor for actor in actors if actor.identity.spec.cwd == folder]
        if here or wanted is not None:
            return here[-1] if here else None
    if len(actors) > 1:
        listed = "; ".join(f"{a.identity.session_id} ({a.identity.agent} in {a.identity.spec.cwd})" for a in actors)
        raise EditorFault(f"several sessions are open; name one with sessionId: {listed}")
    return actors[0] if actors else None


def the_session(workspace: Workspace, params: Params) -> SessionActor:
    """As ``find_session``, but there must be one."""
    actor = find_session(workspace, params)
    if actor is None:
        raise EditorFault("no session is open; send a prompt or use session.new")
    return actor
