"""The rows of providers agree with each other and with pydantic-ai."""

from __future__ import annotations

import pytest

from engine.context.models.providers import NAMED, PROVIDERS, Provider, route_to

EACH = pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)


def test_no_two_providers_share_a_name_or_an_alias() -> None:
    names = [name for provider in PROVIDERS for name in (provider.name, *provider.aliases)]
    assert len(set(names)) == len(names)


@EACH
def test_every_name_of_a_provider_leads_to_it(provider: Provider) -> None:
    for name in (provider.name, *provider.aliases):
        assert route_to(f"{name}:m", {}).provider is provider
    if provider.address is not None:
        elsewhere = {provider.address.variable: "http://localhost:1"}
        assert route_to(f"{provider.aliases[0]}:m", elsewhere).provider is NAMED[provider.address.otherwise]
        assert route_to(f"{provider.name}:m", elsewhere).provider is provider


@EACH
def test_only_who_signs_thinking_signs_calls(provider: Provider) -> None:
    assert provider.signer == (provider.name if provider.signs_thinking else None)
    assert provider.signs_thinking or not provider.signs_calls


@pytest.mark.slow
@pytest.mark.parametrize("provider", [each for each in PROVIDERS if each.variables], ids=lambda provider: provider.name)
def test_the_library_knows_each_provider_and_its_key(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    from pydantic_ai.exceptions import UserError  # only here, because who collects tests need not wait for it
    from pydantic_ai.models import infer_model

    for variable in provider.variables:
        monkeypatch.delenv(variable, raising=False)
    # A provider whose package is not installed says so before it asks for a key; an unknown one says that it is.
    package_or_key = "|".join(("Please install", *provider.variables))
    with pytest.raises((ImportError, UserError), match=package_or_key):
        infer_model(f"{provider.name}:maker/model")


def test_a_provider_without_a_row_is_asked_for_nothing_particular() -> None:
    route = route_to("new:m:8b", {})
    assert (route.provider, route.model) == (Provider(name="new"), "new:m:8b")
    assert route.provider.signer is None
