"""``sidecar run`` as a process of its own, with the demo agent and scripted ones: exit codes, output, questions."""

import json
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from tests.process.cli_home import CliHome, Done

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]


@pytest.fixture
def home(tmp_path: Path) -> CliHome:
    return CliHome(tmp_path)


def test_a_turn_that_ends_gives_zero_and_nothing_but_the_answer(home: CliHome) -> None:
    done = home.prompt("plain", "hello there")
    assert done == Done(0, "You said: hello there\n", "")


def test_a_prompt_comes_from_standard_input(home: CliHome) -> None:
    done = home.run("run", "--agent", "plain", "-", stdin="typed\nelsewhere \N{ROCKET}")
    assert done == Done(0, "You said: typed\nelsewhere \N{ROCKET}\n", "")


def test_quiet_prints_the_answer_alone(home: CliHome) -> None:
    done = home.prompt("demo", "--output", "quiet", "--permission", "allow-once", "edit one line")
    assert (done.code, done.stdout.count("\n")) == (0, 2)
    assert "[completed]" not in done.stdout
    assert done.stderr == "sidecar: allowed once: Edit sidecar-demo.txt\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--agent", "nobody", "hi"), 'there is no agent "nobody"'),
        (("--agent", "plain", "  "), "the prompt is empty"),
        (("--agent", "plain", "--cwd", "/no/such/folder", "hi"), "is not a folder"),
        (("--agent", "plain", "--connection", "laptop", "hi"), "--connection needs a host of agents"),
        (("--agent", "plain", "--tag", "local", "hi"), "--tag chooses among hosts"),
        (("--agent", "plain", "--context", "file:x", "hi"), "--context is not offered yet"),
        (("--agent", "plain", "--forward", "audit", "hi"), "--forward is not offered yet"),
        (("--agent", "plain", "--session", "never heard of", "--cwd", "/no/such/folder", "hi"), "is not a folder"),
        (("--session", "never heard of", "hi"), "there is no stored session 'never heard of'"),
        (("--agent", "plain", "--record", "/no/such/folder/record", "hi"), "the file cannot be written"),
    ],
)
def test_what_cannot_be_meant_ends_with_two_and_a_sentence(home: CliHome, words: tuple[str, ...], said: str) -> None:
    done = home.run("run", *words)
    assert (done.code, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broken_configuration_ends_with_two_and_names_the_key(home: CliHome) -> None:
    home.configure("[agents.plain.env]\nX = 7\n")
    done = home.prompt("plain", "hi")
    assert done.code == 2
    assert "agents.plain.env.X" in done.stderr


@pytest.mark.parametrize(("flag", "value"), [("--mode", "nosuch"), ("--model", "huge")])
def test_a_mode_or_model_that_is_not_offered_sends_nothing(home: CliHome, flag: str, value: str) -> None:
    home.options(config_options=True)
    record = home.home / "record"
    done = home.prompt("plain", flag, value, "--record", str(record), "hello")
    assert (done.code, done.stdout) == (2, "")
    assert f"'{value}' is not offered" in done.stderr
    assert "Nothing was sent" in done.stderr
    assert '"session/prompt"' not in record.read_text()


def test_an_offered_model_is_set_before_the_prompt(home: CliHome) -> None:
    home.options(config_options=True)
    record = home.home / "record"
    assert home.prompt("plain", "--model", "large", "--record", str(record), "hello").code == 0
    sent = [json.loads(line)["msg"].get("method") for line in record.read_text().splitlines() if '"out"' in line]
    assert sent == ["initialize", "session/new", "session/set_config_option", "session/prompt"]


def test_a_failing_turn_ends_with_one_and_says_why(home: CliHome) -> None:
    done = home.prompt("demo", "fail now")
    assert done.code == 1
    assert "The demo agent failed because you asked it to" in done.stderr


def test_a_program_that_is_not_there_ends_with_four_and_names_the_path_searched(home: CliHome) -> None:
    done = home.prompt("absent", "hi")
    assert done.code == 4
    assert "'no-such-agent-anywhere' was not found" in done.stderr
    assert "PATH searched: /usr/bin, /bin" in done.stderr


def test_an_agent_that_dies_at_once_ends_with_four_and_its_last_words(home: CliHome) -> None:
    home.fault("exit_at_once", "7")
    done = home.prompt("fault", "hi")
    assert done.code == 4
    assert "exited with code 7" in done.stderr
    assert "the configuration is broken" in done.stderr


@pytest.mark.parametrize("fault", ["exit_in_turn", "kill_in_turn", "half_in_turn", "closes_stdout_in_turn"])
def test_an_agent_lost_in_the_turn_ends_with_four_and_the_prompt_is_not_sent_again(home: CliHome, fault: str) -> None:
    home.fault(fault)
    record = home.home / "record"
    done = home.prompt("fault", "--output", "json", "--record", str(record), "hi")
    assert done.code == 4
    assert done.types[-1] == "turn_error"
    assert record.read_text().count('"session/prompt"') == 1


def test_an_agent_that_wants_a_sign_in_ends_with_four_and_what_it_said(home: CliHome) -> None:
    home.options(auth="agent")
    done = home.prompt("plain", "hi")
    assert done.code == 4
    assert "Authentication required" in done.stderr


@pytest.mark.parametrize(
    "fault",
    ["noise_first", "bom_first", "stderr_flood_first", "grandchildren", "invalid_utf8", "nested_arrays", "long_number", "nan",
     "top_array", "lone_surrogate", "odd_text", "unknown_reply_id", "id_true", "wrong_shapes", "reused_request_id"],
)  # fmt: skip
def test_what_a_faulty_agent_sends_leaves_a_whole_answer_and_clean_lines(home: CliHome, fault: str) -> None:
    home.fault(fault)
    done = home.prompt("fault", "--output", "json", "hi")
    assert (done.code, done.types[-1:]) == (0, ["turn_complete"]), done.stderr
    assert done.data("delta")[-1]["content"]["text"] == "alive"
    assert "\x1b" not in done.stdout


def test_terminal_controls_in_an_answer_are_shown_not_sent(home: CliHome) -> None:
    home.fault("odd_text")
    done = home.prompt("fault", "hi")
    assert done.code == 0
    assert "\\u{1b}[2J" in done.stdout
    assert not set("\x1b\x00\x85\u202e") & set(done.stdout)


def test_a_time_limit_cancels_the_turn_and_ends_with_three(home: CliHome) -> None:
    done = home.prompt("kiro3", "--output", "json", "--timeout", "2", "silent")
    assert (done.code, done.types[-1:]) == (3, ["turn_cancelled"])
    assert "tool_call_cancelled" in done.types
    assert "no end within 2 s" in done.stderr


def test_a_time_limit_bounds_an_agent_that_never_answers(home: CliHome) -> None:
    home.fault("never_replies")
    done = home.prompt("fault", "--timeout", "1", "hi")
    assert (done.code, done.stderr) == (3, "sidecar: no end within 1 s\n")


def begin_until(home: CliHome, needle: str, *words: str) -> subprocess.Popen[str]:
    process = home.begin("run", "--output", "json", *words)
    assert process.stdout is not None
    while needle not in (line := process.stdout.readline()):
        assert line, home.finish(process).stderr
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_the_agent_to_cancel(home: CliHome, number: signal.Signals) -> None:
    process = begin_until(home, '"tool_call_ready"', "--agent", "kiro3", "silent")
    os.killpg(process.pid, number)
    done = home.finish(process)
    assert (done.code, done.types[-1:]) == (3, ["turn_cancelled"])


def test_the_second_signal_kills_an_agent_that_does_not_cancel(home: CliHome) -> None:
    process = begin_until(home, '"working"', "--agent", "kiro3", "deaf")
    assert process.stderr is not None
    process.send_signal(signal.SIGINT)
    assert "asked to stop" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    done = home.finish(process)
    assert done.code == 3
    assert "ended now" in done.stderr


def test_a_signal_before_the_prompt_ends_the_run(home: CliHome) -> None:
    home.fault("never_replies")
    record = home.home / "record"
    process = home.begin("run", "--agent", "fault", "--record", str(record), "hi")
    while "initialize" not in (record.read_text() if record.exists() else ""):
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert home.finish(process).code == 3


def test_a_reader_that_goes_away_ends_the_run_quietly(home: CliHome) -> None:
    process = begin_until(home, '"tool_call_ready"', "--agent", "kiro3", "silent")
    assert process.stdout is not None
    process.stdout.close()
    process.send_signal(signal.SIGTERM)  # what the agent says to it is what cannot be written
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(30) == 1
    assert "Traceback" not in said
    assert "BrokenPipe" not in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
@pytest.mark.parametrize("words", [("run", "--agent", "plain", "hi"), ("agents",), ("sessions", "--output", "json"), ("demo",)])
def test_a_full_disk_is_told_in_one_line(home: CliHome, words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        process = home.begin(*words, stdout=full)
        _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (1, "sidecar: standard output cannot be written: No space left on device\n")


def test_an_interrupt_works_while_nobody_reads_the_output(home: CliHome) -> None:
    home.fault("flood", "4")
    process = begin_until(home, '"delta"', "--agent", "fault", "hi")
    assert process.stderr is not None
    process.send_signal(signal.SIGINT)
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 3
    assert home.finish(process).code == 3


# --- lines of JSON ---------------------------------------------------------------------------------------------------------


def test_each_protocol_event_is_one_line_with_the_raw_data(home: CliHome) -> None:
    record = home.home / "record"
    done = home.prompt("kiro3", "--output", "json", "--record", str(record), "answer to this")
    assert done.code == 0
    for event in done.events:
        assert set(event) == {"type", "timestamp", "sessionId", "data"}
        assert event["timestamp"].endswith("Z")
        assert event["sessionId"].startswith("s-")
    updates = [
        message["msg"]["params"]["update"]
        for message in map(json.loads, record.read_text().splitlines())
        if message["dir"] == "in" and message["msg"].get("method") == "session/update"
    ]
    lines = [event["data"] for event in done.events if "sessionUpdate" in event["data"]]
    until = len(lines)
    assert lines == updates[:until]
    assert done.events.index(next(event for event in done.events if event["type"] == "turn_complete")) == len(done.events) - 1
    assert done.types.count("delta") == 3
    assert done.types.count("reasoning") == 1
    assert done.types[-1] == "turn_complete"
    assert done.data("unknown")[-1]["payload"] == {"kept": True}


def test_without_a_terminal_a_question_is_answered_with_a_real_reject(home: CliHome) -> None:
    record = home.home / "record"
    done = home.prompt("kiro3", "--output", "json", "--record", str(record), "shell touch made")
    assert done.code == 0
    (asked,), (answered,) = done.data("permission_requested"), done.data("permission_answered")
    assert asked["command"] == "touch made"
    offered = {option["optionId"]: option["kind"] for option in asked["options"]}
    assert offered[answered["answer"]["optionId"]] == "reject_once"
    assert answered["id"] == asked["id"]
    assert "rejected: " in done.stderr
    reply = next(message["msg"] for message in map(json.loads, record.read_text().splitlines()) if "outcome" in str(message))
    assert reply is not None


def test_allow_once_takes_the_one_offered_and_says_so(home: CliHome) -> None:
    done = home.prompt("kiro3", "--output", "json", "--permission", "allow-once", "shell echo hello")
    assert "tool_call_complete" in done.types
    (asked,), (answered,) = done.data("permission_requested"), done.data("permission_answered")
    kinds = {option["optionId"]: option["kind"] for option in asked["options"]}
    assert kinds[answered["answer"]["optionId"]] == "allow_once"
    assert set(answered["answer"]) == {"optionId"}
    assert done.stderr == "sidecar: allowed once: echo hello\n"


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("shell echo x>.git/hooks/pre-commit", "it lies in .git"),
        ("shell cp evil ~/.bashrc", ".bashrc decides what is run"),
        ("question", "3 one-time options are offered"),
    ],
)
def test_allow_once_does_not_allow_what_is_protected_or_a_choice(home: CliHome, prompt: str, said: str) -> None:
    done = home.prompt("kiro3", "--output", "json", "--permission", "allow-once", prompt)
    (asked,) = done.data("permission_requested")
    (answered,) = done.data("permission_answered")
    kinds = {option["optionId"]: option["kind"] for option in asked["options"]}
    chosen = answered["answer"]["optionId"] if answered["answer"] else ""
    assert kinds.get(chosen, "none") in {"reject_once", "none"}
    assert said in done.stderr


def test_allow_once_never_lets_the_sidecars_own_files_be_touched(home: CliHome) -> None:
    done = home.prompt("kiro3", "--permission", "allow-once", f"shell cat {home.config}")
    assert "it belongs to the sidecar itself" in done.stderr
    done = home.prompt("kiro3", "--permission", "allow-once", f"shell ls {home.state}/sub")
    assert "it belongs to the sidecar itself" in done.stderr


def test_an_address_stands_in_no_line_and_is_declined(home: CliHome) -> None:
    secret = "Zq7state-of-the-sign-in-9481"
    home.options(url=f"https://as.example/authorize?state={secret}")
    done = home.prompt("kiro3", "--output", "json", "--permission", "allow-once", "url")
    assert "Opened: False." in done.stdout
    (asked,) = done.data("permission_requested")
    assert (asked["kind"], asked["host"]) == ("openUrl", "as.example")
    assert done.data("permission_answered")[0]["answer"]["action"] == "decline"
    assert secret not in done.stdout + done.stderr


def test_strict_keeps_standard_error_json(home: CliHome) -> None:
    done = home.prompt("kiro3", "--strict", "--output", "json", "shell touch made")
    assert [json.loads(line)["message"] for line in done.stderr.splitlines()] == ["rejected: touch made"]
    done = home.prompt("absent", "--strict", "hi")
    assert done.code == 4
    assert all("message" in json.loads(line) for line in done.stderr.splitlines())
    done = home.prompt("nobody\N{ROCKET}" + "y" * 900, "--strict", "hi")
    assert done.code == 2
    assert all("message" in json.loads(line) for line in done.stderr.splitlines())


# --- sessions --------------------------------------------------------------------------------------------------------------


def test_a_session_goes_on_by_our_id_the_agents_id_and_its_title(home: CliHome) -> None:
    first = home.prompt("demo", "--output", "json", "hello you")
    ours = first.events[-1]["sessionId"]
    listed = json.loads(home.run("sessions", "--output", "json").stdout)["sessions"]
    assert [entry["sessionId"] for entry in listed] == [ours]
    title, agents = listed[0]["title"], listed[0]["agentSessionId"]
    for name in (title, ours, agents):
        done = home.run("run", "--output", "json", "--session", name, "hello again")
        assert (done.code, done.types[-1:]) == (0, ["turn_complete"]), done.stderr
        assert {event["sessionId"] for event in done.events} == {ours}
        said = "".join(delta["content"]["text"] for delta in done.data("delta"))
        assert "hello again" in said
        assert "hello you" not in said
    assert "nothing" not in home.run("sessions").stdout
    there = json.loads(home.run("sessions", "--agent", "demo", "--output", "json").stdout)["sessions"]
    assert agents in [entry["agentSessionId"] for entry in there]


# --- records ---------------------------------------------------------------------------------------------------------------


def test_a_record_is_private_and_replays_as_the_session_it_was(home: CliHome) -> None:
    record = home.home / "record"
    done = home.prompt("kiro3", "--permission", "allow-once", "--record", str(record), "shell echo hello")
    assert done.code == 0
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert all(set(line) == {"t", "dir", "msg"} and line["dir"] in {"in", "out"} for line in lines)
    shown = home.run("replay", str(record))
    assert shown.code == 0
    assert "shell echo hello" in shown.stdout
    assert "It ran." in shown.stdout
    (session,) = json.loads(home.run("replay", str(record), "--output", "json").stdout)["sessions"]
    (turn,) = [turn for turn in session["session"]["turns"] if turn.get("text")]
    assert turn["stopReason"] == "end_turn"


def test_a_file_that_is_no_record_is_told(home: CliHome) -> None:
    done = home.run("replay", str(home.config))
    assert (done.code, done.stdout) == (2, "")
    assert "this line is no JSON" in done.stderr
