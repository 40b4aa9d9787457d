"""Questions to the user: permissions and forms. What is asked, and what the answers mean, in each version.

A question is a call with its options; each version has its own request for it. A client must advertise forms before
they may be used. An answer that is not clearly an approval is a rejection. Source of the shapes: ACP v1 schema,
`RequestPermissionResponse`, `CreateElicitationRequest` and the types they use.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import Field, JsonValue

from acp_adapter.jsonrpc.messages import Json
from acp_adapter.shown import Facts
from acp_adapter.updates.blocks import (
    arguments_block,
    change_content,
    change_locations,
    change_title,
    command_block,
    command_input,
    command_title,
    directory_block,
    location,
    source_block,
    source_input,
    source_title,
    text_block,
    title_line,
)
from acp_adapter.updates.session import REBUILD
from acp_adapter.updates.shapes import ToolCallPatch
from acp_adapter.wire import ForgivingModel, WireModel, from_wire, to_wire
from engine import Form, FormAnswer, PermissionAnswer, PermissionQuestion
from engine.context.tail.rights import rebuild_sentence
from engine.core.text import legible_line, source_command
from engine.log.forms import DECLINED, DISMISSED, Value, answer_of, choices_of, schema_of
from engine.log.permissions import (
    ASKED_CHARS,
    CommandSubject,
    FileSubject,
    RebuildSubject,
    ServerCallSubject,
    SiteSubject,
    StatementSubject,
    TreeSubject,
)

PermissionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class PermissionOption(WireModel):
    option_id: str
    name: str
    kind: PermissionKind


class CancelledOutcome(ForgivingModel):
    outcome: Literal["cancelled"] = "cancelled"


class SelectedOutcome(ForgivingModel):
    outcome: Literal["selected"] = "selected"
    option_id: str


class RequestPermissionResponse(ForgivingModel):
    outcome: Annotated[CancelledOutcome | SelectedOutcome, Field(discriminator="outcome")]


OUTSIDE: Final = "The command runs outside the sandbox, with your permissions."
ALLOW_REST: Final = "Allow all other files that this statement changes"
_REST: Final = "allow_statement"
_ANSWERS: Final[dict[str, PermissionAnswer]] = {
    "allow_once": PermissionAnswer(outcome="allowed"),
    _REST: PermissionAnswer(outcome="allowed", rest=True),
    "allow_always": PermissionAnswer(outcome="allowed", remember=True),
    "reject_once": PermissionAnswer(outcome="rejected"),
    "reject_always": PermissionAnswer(outcome="rejected", remember=True),
}
"""The answer by option id. Except for `_REST`, the id is also the kind."""


class Question(NamedTuple):
    """A question about a call: what the call would do, and the options to choose from."""

    call: ToolCallPatch
    options: list[PermissionOption]


def permission_question(question: PermissionQuestion, facts: Facts) -> Question:
    """Return the question for a permission."""
    return Question(_tool_call(question, facts), _options(question))


def _tool_call(question: PermissionQuestion, facts: Facts) -> ToolCallPatch:
    match question.subject:
        case RebuildSubject() as subject:
            return ToolCallPatch(
                tool_call_id=question.tool_call_id,
                title=REBUILD,
                kind="other",
                status="pending",
                content=[text_block(rebuild_sentence(subject))],
            )
        case StatementSubject(source=source, note=note):
            return ToolCallPatch(
                tool_call_id=question.tool_call_id,
                title=source_title(source),
                kind="execute",
                status="pending",
                content=[source_block(source), *([text_block(note)] if note else [])],
                raw_input=source_input(source),
            )
        case FileSubject(path=real_path, changes=changes, note=note):
            path = facts.spelled(real_path)
            return ToolCallPatch(
                tool_call_id=question.tool_call_id,
                title=change_title(path, changes, facts.cwd),
                kind="edit",
                status="pending",
                content=change_content(path, changes, note),
                locations=change_locations(path, changes),
                raw_input={"path": legible_line(path)},
            )
        case TreeSubject(act=action, kind=kind, paths=paths, changes=changes, note=note):
            path = facts.spelled(paths[-1])
            return ToolCallPatch(
                tool_call_id=question.tool_call_id,
                title=title_line(action),
                kind=kind,
                status="pending",
                content=change_content(
                    path, changes, "\n".join(filter(None, (action, note))), removed=kind == "delete"
                ),
                locations=[location(facts.spelled(each)) for each in paths],
                raw_input={"paths": [legible_line(facts.spelled(each)) for each in paths]},
            )
        case CommandSubject(command=command, cwd=real_path, outside=outside):
            cwd = facts.spelled(real_path)
            return ToolCallPatch(
                tool_call_id=question.tool_call_id,
                title=command_title(command),
                kind="execute",
                status="pending",
                content=[command_block(command), directory_block(cwd), *([text_block(OUTSIDE)] if outside else [])],
                raw_input={**command_input(command), "cwd": legible_line(cwd)},
            )
        case SiteSubject(url=url):
            return _site_call(question, url)
        case ServerCallSubject(server=server, tool=tool, arguments=arguments):
            return ToolCallPatch(
                tool_call_id=question.tool_call_id,
                title=title_line(f"Call {tool} of MCP server {server}"),
                kind="other",
                status="pending",
                content=[arguments_block(arguments)],
                raw_input={
                    "server": legible_line(server),
                    "tool": legible_line(tool),
                    "arguments": source_command(arguments, ASKED_CHARS),
                },
            )


def _site_call(question: PermissionQuestion, url: str) -> ToolCallPatch:
    return ToolCallPatch(
        tool_call_id=question.tool_call_id,
        title=title_line(f"Fetch {url}"),
        kind="fetch",
        status="pending",
        content=[text_block(legible_line(url))],
        raw_input={"url": legible_line(url)},
    )


def _options(question: PermissionQuestion) -> list[PermissionOption]:
    always = question.always
    options = [_option("allow_once", "Allow")]
    if always:
        options.append(_option("allow_always", title_line(f"Always allow {always}")))
    if question.rest:
        # Last of the allowing options, because a client may use the first option of each kind as that kind.
        options.append(PermissionOption(option_id=_REST, name=ALLOW_REST, kind="allow_always"))
    options.append(_option("reject_once", "Reject"))
    if always:
        options.append(_option("reject_always", title_line(f"Always reject {always}")))
    return options


def _option(kind: PermissionKind, label: str) -> PermissionOption:
    return PermissionOption(option_id=kind, name=label, kind=kind)


def permission_answer(result: object) -> PermissionAnswer:
    """Return the user's choice; an option that was not offered is a rejection. Raises WireShapeError."""
    outcome = from_wire(RequestPermissionResponse, result).outcome
    if not isinstance(outcome, SelectedOutcome):
        return PermissionAnswer(outcome="cancelled")
    return _ANSWERS.get(outcome.option_id, PermissionAnswer(outcome="rejected"))


# --- forms ------------------------------------------------------------------------------------------------------------


class CreateElicitationRequest(WireModel):
    session_id: str
    tool_call_id: str
    mode: Literal["form"] = "form"
    message: str
    requested_schema: Json


class CreateElicitationResponse(ForgivingModel):
    """Another action than these is not an answer. Values are checked by the engine."""

    action: str
    content: dict[str, JsonValue] | None = None


class Asked(NamedTuple):
    """The params of a question, and the function that reads its answer; it raises WireShapeError."""

    params: Json
    read: Callable[[object], FormAnswer]


NO_ANSWER: Final = "No answer"
_DECLINE: Final = "no_answer"


def form_request(session_id: str, form: Form) -> Asked:
    """Return the question as a form (`elicitation/create`)."""
    request = CreateElicitationRequest(
        session_id=session_id, tool_call_id=form.tool_call_id, message=form.text, requested_schema=schema_of(form)
    )
    return Asked(to_wire(request), partial(_form_answer, form))


def _form_answer(form: Form, result: object) -> FormAnswer:
    response = from_wire(CreateElicitationResponse, result)
    return answer_of(form, response.action, response.content)


class Choice(NamedTuple):
    """A form as a question whose options are its choices, and the function that reads the answer."""

    question: Question
    read: Callable[[object], FormAnswer]


def choice(form: Form) -> Choice | None:
    """Return the form as a choice; None if it has no choices."""
    choices = choices_of(form)
    if choices is None:
        return None
    options = [
        PermissionOption(option_id=f"choice_{number}", name=title_line(title), kind="allow_once")
        for number, (title, _) in enumerate(choices)
    ]
    options.append(PermissionOption(option_id=_DECLINE, name=NO_ANSWER, kind="reject_once"))
    call = ToolCallPatch(
        tool_call_id=form.tool_call_id,
        title=title_line(form.text),
        kind="other",
        status="pending",
        content=[text_block(form.text)],
    )
    answers = {option.option_id: values for option, (_, values) in zip(options, choices, strict=False)}
    return Choice(Question(call, options), partial(_chosen, answers))


def _chosen(answers: Mapping[str, Mapping[str, Value]], result: object) -> FormAnswer:
    outcome = from_wire(RequestPermissionResponse, result).outcome
    if not isinstance(outcome, SelectedOutcome):
        return DISMISSED
    values = answers.get(outcome.option_id)
    return DECLINED if values is None else FormAnswer(outcome="accepted", values=values)
