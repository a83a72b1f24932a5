"""What an agent announced at ``initialize``, read once: the running agent's word is the only one that counts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from sidecar.agents.extensions import EXTENSIONS
from sidecar.agents.profiles import AgentProfile
from sidecar.session.lenient import object_at, objects_in, text_or_none, texts_in
from sidecar.session.ports import AgentInfo, Capabilities, SessionSpec

KIRO_V3: Final = "kiro-v3"
KIRO_V2: Final = "kiro-v2"
PLAIN: Final = "acp"
ANNOUNCED_VALUES: Final = (
    "sessionSources",
    "sessionListScopes",
    "executionTargets",
    "replayMarking",
    "logging",
    "sourceProviders",
    "checkpoints",
    "sessionList",
)


def _has(value: Mapping[str, Any], key: str) -> bool:
    """A capability is there when its key holds true or an object; false, null and absence mean it is not."""
    found = value.get(key)
    return found is True or isinstance(found, Mapping)


@attrs.frozen
class Announced:
    """The agent's ``initialize`` result as values; ``methods`` are its announced private methods."""

    info: AgentInfo = attrs.field(factory=lambda: AgentInfo(""))
    methods: Sequence[str] = ()
    standard: Capabilities = attrs.field(factory=Capabilities)

    def capabilities(self, may_call: Callable[[str], bool]) -> Capabilities:
        """Return what can be used now: standard capabilities, and private ones the policy and the agent still allow."""
        able = {name: may_call(extension.method) for name, extension in EXTENSIONS.items()}
        return attrs.evolve(
            self.standard,
            steer=may_call("_session/steer"),
            mcp_authenticate=may_call("_kiro/mcp/resetServer"),
            announced=tuple(self.methods),
            **able,
        )

    def is_remote(self, result: Any, spec: SessionSpec) -> bool:
        """Return whether a session runs elsewhere: the agent's word in the reply, else what was asked for."""
        meta = object_at(result, "_meta")
        found: Any = meta.get("source") or object_at(meta, "kiro").get("source") or spec.source
        kind = object_at(found).get("type", found)
        return kind == "remote" or (spec.execution_target not in {None, "local"})


def read_announced(result: Any, profile: AgentProfile) -> Announced:
    """Read the result of ``initialize``; anything malformed counts as not announced."""
    offered = object_at(result, "agentCapabilities")
    kiro = object_at(offered, "_meta", "kiro")
    sessions = object_at(offered, "sessionCapabilities")
    prompts = object_at(offered, "promptCapabilities")
    mcp = object_at(offered, "mcpCapabilities")
    agent = object_at(result, "agentInfo")
    named = tuple(texts_in(kiro.get("extensionMethods")))
    values = {key: kiro[key] for key in ANNOUNCED_VALUES if key in kiro}
    standard = Capabilities(
        load=_has(offered, "loadSession"),
        resume=_has(sessions, "resume"),
        list=_has(sessions, "list"),
        close=_has(sessions, "close"),
        delete=_has(sessions, "delete"),
        fork=_has(sessions, "fork"),
        image=_has(prompts, "image"),
        audio=_has(prompts, "audio"),
        embedded_context=_has(prompts, "embeddedContext"),
        additional_directories=_has(sessions, "additionalDirectories") or profile.always_additional_directories,
        mcp_http=_has(mcp, "http"),
        mcp_sse=_has(mcp, "sse"),
        logout=_has(object_at(offered, "auth"), "logout"),
        values=values,
    )
    info = AgentInfo(
        name=profile.name,
        title=text_or_none(agent.get("title")) or text_or_none(agent.get("name")),
        version=text_or_none(agent.get("version")),
        generation=_generation(kiro, profile),
        late_options=bool(kiro),
        capabilities=standard,
        auth_methods=tuple(objects_in(object_at(result).get("authMethods"))),
    )
    return Announced(info, named, standard)


def _generation(kiro: Mapping[str, Any], profile: AgentProfile) -> str:
    """V3 is known by its marker alone; both generations negotiate protocol version 1 (Kiro V3 client guide)."""
    if kiro:
        return KIRO_V3
    return KIRO_V2 if profile.kiro == "v2" else PLAIN
