"""The base of all shapes: names, `_meta`, the difference between omitted and null, and forgiving reading.

Knows no message of the protocol. Protocol versions (`v1`) derive their shapes from `WireModel`, read with `from_wire`
and write with `to_wire`. Reading only accepts camelCase names, and forgives what the schema marks
`x-deserialize-default-on-error`. Building a model in Python takes snake_case names and forgives nothing.

The official bindings take half a second to import; these models are built when they are first used. Tests check every
message that leaves the program against the official schema.
"""

import os
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, cast, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from acp_adapter.jsonrpc.messages import WireShapeError

T = TypeVar("T")
M = TypeVar("M", bound="WireModel")
_READING: object = object()
_INVALID: object = object()


class WireModel(BaseModel):
    """A message or a part of one. Fields with one literal value, such as `type`, are always sent."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        strict=True,
        extra="ignore",
        defer_build=True,
        protected_namespaces=(),
    )
    tags: ClassVar[frozenset[str]] = frozenset()

    meta: dict[str, Any] | None = Field(default=None, validation_alias="_meta", serialization_alias="_meta")

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        cls.tags = frozenset(
            name
            for name, field in cls.model_fields.items()
            if get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1
        )

    def model_post_init(self, context: Any, /) -> None:
        if self.tags:
            self.__pydantic_fields_set__.update(self.tags)


class ForgivingModel(WireModel):
    """A message, or a part of one, that is read from the wire: a malformed optional field counts as omitted.

    `strict_fields` names the optional fields that the schema excludes from this.
    """

    strict_fields: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="wrap")
    @classmethod
    def _forgive(cls, value: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        try:
            return handler(value)
        except ValidationError as error:
            if info.context is not _READING or not isinstance(value, dict):
                raise
            malformed = {str(item["loc"][0]) if item["loc"] else "" for item in error.errors(include_url=False)}
            if not malformed <= cls._forgiven():
                raise
            fields = cast("dict[str, Any]", value)
        return handler({name: fields[name] for name in fields if name not in malformed})

    @classmethod
    def _forgiven(cls) -> set[str]:
        return {
            str(field.serialization_alias)
            for name, field in cls.model_fields.items()
            if not field.is_required() and name not in cls.strict_fields
        }


def _item(value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    if info.context is not _READING:
        return handler(value)
    try:
        return handler(value)
    except ValidationError:
        return _INVALID


def _valid_only(items: list[T]) -> list[T]:
    return [item for item in items if item is not _INVALID]


def _empty_for_null(value: Any, info: ValidationInfo) -> Any:
    return [] if value is None and info.context is _READING else value


def _absolute(path: str) -> str:
    if not os.path.isabs(path):
        raise ValueError("must be an absolute path")
    return path


ForgivingList = Annotated[list[Annotated[T, WrapValidator(_item)]], AfterValidator(_valid_only)]
"""A list whose invalid items are dropped (`x-deserialize-skip-invalid-items`)."""

NullableList = Annotated[list[T], BeforeValidator(_empty_for_null)]
"""A list that may be null instead of empty (`x-deserialize-default-on-null`)."""

AbsolutePath = Annotated[str, AfterValidator(_absolute)]
"""A path that the protocol requires to be absolute."""


class Empty(ForgivingModel):
    """An object without fields: many answers, and capabilities, where `{}` means supported and null does not."""


def from_wire(model: type[M], value: object) -> M:
    """Read a decoded JSON value; null counts as an empty object. Raises WireShapeError, which contains no input."""
    try:
        return model.model_validate({} if value is None else value, context=_READING, by_alias=True, by_name=False)
    except ValidationError as error:
        items = [cast("dict[str, Any]", item) for item in error.errors(include_url=False, include_input=False)]
        path = _path(items[0], value)
        reasons = dict.fromkeys(_reason(item) for item in items if _path(item, value) == path)
        raise WireShapeError(path, " or ".join(reasons)) from None


def to_wire(model: WireModel) -> dict[str, Any]:
    """Return a model as JSON with exactly the fields that were given, so null and omitted stay different."""
    return model.model_dump(by_alias=True, exclude_unset=True)


def given(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None, to pass to a model: the others are omitted on the wire, not null."""
    return {name: value for name, value in fields.items() if value is not None}


def _path(error: Mapping[str, Any], value: Any) -> str:
    """Return the place of an error in the value, without pydantic's names of union branches."""
    path = ""
    here: Any = value
    last = len(error["loc"]) - 1
    for index, part in enumerate(error["loc"]):
        if isinstance(part, int):
            path, here = f"{path}[{part}]", cast("list[Any]", here)[part]
        elif isinstance(here, dict) and (part in here or (index == last and error["type"] == "missing")):
            path, here = f"{path}.{part}" if path else part, cast("dict[str, Any]", here).get(part)
    return path


def _reason(error: Mapping[str, Any]) -> str:
    match error["type"]:
        case "missing":
            return "is required"
        case "model_type" | "dict_type":
            return "must be an object"
        case "union_tag_invalid":
            return f"must be tagged with one of {error['ctx']['expected_tags']}"
        case "union_tag_not_found":
            return f"must have {error['ctx']['discriminator']}"
        case "value_error":
            return str(error["ctx"]["error"])
        case _:
            # because the messages of the other types contain the expected value, never the input
            return str(error["msg"]).replace("Input should be", "must be")
