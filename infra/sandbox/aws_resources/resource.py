"""What every entry of the table has: arguments, what forces a replacement, and the four actions."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from botocore.exceptions import ClientError

from infra.sandbox.aws_resources.clients import AwsClients
from infra.sandbox.aws_resources.errors import AwsResourceError, HalfCreatedError, error_code, is_gone, refusals_as
from infra.sandbox.aws_resources.naming import made_up_name, suggestion
from infra.sandbox.aws_resources.outcomes import Checked, Difference
from infra.sandbox.aws_resources.properties import (
    UNKNOWN,
    Properties,
    Shape,
    absent,
    covers,
    differences,
    is_unknown,
    merged,
    narrowed,
    nested,
    unknown_keys,
    whole_numbers,
)

_DEPENDENTS_LIMIT_S = 10.0


class ResourceType(ABC):
    """One AWS resource type. Subclasses state the facts as class attributes and write the underscored actions.

    - `token`: Pulumi's type token; `service` and `label`: the words of AWS error messages.
    - `inputs`: the arguments that are covered. Anything else is refused by name, never ignored.
    - `required`: arguments without which AWS would refuse.
    - `computed`: outputs that only exist once the resource does.
    - `volatile`: computed outputs that an update changes.
    - `defaults`: arguments that the AWS provider fills in.
    - `replace_on`: paths whose change forces a replacement; a path covers everything below it.
    - `name_key`: the argument that holds the physical name, made up from the resource's name where it isn't given.
    - `fixed_identity`: two cannot exist at once, so a replacement deletes first even where there is no name.
    - `maps`: free-form maps, in which a key added by hand counts as a change.
    - `ordered`: lists whose order matters; all others are sets.
    """

    token: ClassVar[str]
    service: ClassVar[str]
    label: ClassVar[str]
    inputs: ClassVar[Shape]
    required: ClassVar[tuple[str, ...]] = ()
    computed: ClassVar[tuple[str, ...]] = ()
    volatile: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[Mapping[str, Any]] = {}
    replace_on: ClassVar[frozenset[str]] = frozenset()
    name_key: ClassVar[str | None] = None
    name_prefix: ClassVar[str] = ""
    fixed_identity: ClassVar[bool] = False
    maps: ClassVar[frozenset[str]] = frozenset({"tags", "tagsAll", "labels", "dimensions"})
    ordered: ClassVar[frozenset[str]] = frozenset()

    @property
    def taggable(self) -> bool:
        """Whether the type has tags."""
        return "tags" in self.inputs

    # ------------------------------------------------------------------ written by each type

    @abstractmethod
    def _create(self, clients: AwsClients, inputs: Properties) -> str:
        """Create and return the id, without waiting."""

    @abstractmethod
    def _live(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        """What AWS says now, by Pulumi's names; a value of None means "not set"; None alone means gone."""

    @abstractmethod
    def _delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        """Ask AWS to delete, without waiting."""

    def _settle(self, clients: AwsClients, resource_id: str, inputs: Properties) -> None:  # noqa: B027 most need none
        """Wait until a new or changed resource can be used."""

    def _update(self, clients: AwsClients, resource_id: str, old: Properties, new: Properties) -> None:
        """Bring everything but tags from `old` to `new`."""
        raise AwsResourceError(f"{self.label} ({resource_id}) has nothing that can be changed in place")

    def _tag(
        self, clients: AwsClients, resource_id: str, state: Properties, put: dict[str, str], drop: list[str]
    ) -> None:
        """Set the tags `put` and remove the tags named in `drop`."""
        raise AwsResourceError(f"{self.label} ({resource_id}) has no tags")

    def _invalid(self, inputs: Properties) -> Iterable[tuple[str, str]]:
        """Further faults of the inputs that can be told without AWS."""
        return ()

    # ------------------------------------------------------------------ used by the engine side

    def check(
        self,
        name: str,
        news: Mapping[str, Any],
        olds: Mapping[str, Any] | None = None,
        default_tags: Mapping[str, str] | None = None,
        seed: bytes = b"",
        proposed_name: str | None = None,
    ) -> Checked:
        """Fill in defaults, the physical name and all tags, and find every fault.

        - `name`: the resource's name in the program.
        - `olds`: the inputs recorded before; a name made up then is kept.
        - `seed`: makes a made-up name repeatable; without it the name is random.
        - `proposed_name`: the physical name the engine's own naming rules chose.
        """
        inputs: Properties = {
            key: value for key, value in whole_numbers(news).items() if value is not None and key != "tagsAll"
        }
        inputs.pop("__defaults", None)
        failures = [
            (path, f"{path} is not an argument this table covers for {self.token}{suggestion(path, accepted)}")
            for path, accepted in unknown_keys(inputs, self.inputs)
        ]
        failures.extend((key, f"missing required argument {key}") for key in self.required if key not in inputs)
        filled: list[str] = []
        for key, value in self.defaults.items():
            if key not in inputs:
                inputs[key] = value
                filled.append(key)
        if self.name_key is not None and self.name_key not in inputs:
            recorded = olds or {}
            if self.name_key in recorded.get("__defaults", ()):
                inputs[self.name_key] = recorded[self.name_key]
            else:
                inputs[self.name_key] = self.name_prefix + (proposed_name or made_up_name(name, self.token, seed))
            filled.append(self.name_key)
        if self.taggable:
            tags: Any = inputs.get("tags", {})
            # Unknown as a whole in a preview, the tags are unknown with the defaults too.
            everything: Any = tags if is_unknown(tags) else {**(default_tags or {}), **tags}
            if everything:
                inputs["tagsAll"] = everything
                filled.append("tagsAll")
        failures.extend(self._invalid(inputs))
        if filled:
            inputs["__defaults"] = sorted(filled)
        return Checked(inputs, tuple(failures))

    def diff(self, old: Mapping[str, Any], new: Mapping[str, Any], ignored: Sequence[str] = ()) -> Difference:
        """Compare recorded inputs with checked new ones; paths in `ignored` and all below them don't count."""
        changes = {
            path: kind
            for path, kind in differences(dict(old), dict(new), self.ordered).items()
            if not any(covers(one, path) for one in ignored)
        }
        replaces = frozenset(path for path in changes if self._replaces(path, old, new))
        named = self.name_key is not None and self.name_key not in new.get("__defaults", ())
        return Difference(changes, replaces, bool(replaces) and (named or self.fixed_identity))

    def _replaces(self, path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
        """Whether the change at `path` forces a replacement."""
        return path == self.name_key or any(covers(one, path) for one in self.replace_on)

    def preview_outputs(self, inputs: Properties, state: Properties | None = None) -> Properties:
        """The outputs a preview can show: what isn't known before AWS answers is marked unknown."""
        shown = {key: value for key, value in inputs.items() if key != "__defaults"}
        if state is None:
            return {**dict.fromkeys((*self.computed, *self.volatile), UNKNOWN), **shown}
        return {**state, **shown, **dict.fromkeys(self.volatile, UNKNOWN)}

    def create(self, clients: AwsClients, name: str, inputs: Properties) -> tuple[str, Properties]:
        """Create from checked inputs, wait until it can be used, and return (id, outputs).

        Raises AwsResourceError with AWS's text; HalfCreatedError where something exists but did not become usable.
        """
        action = f"creating {self.label} ({self._identity(name, inputs)})"
        with refusals_as(action, self.service):
            resource_id = self._create(clients, inputs)
        try:
            with refusals_as(f"waiting for {self.label} ({resource_id}) create", self.service):
                self._settle(clients, resource_id, inputs)
            outputs = self.read(clients, resource_id, inputs)
        except AwsResourceError as error:
            raise HalfCreatedError(str(error), resource_id, dict(inputs)) from error
        if outputs is None:
            raise HalfCreatedError(f"{action}: AWS made {resource_id} and does not know it", resource_id, dict(inputs))
        return resource_id, outputs

    def read(self, clients: AwsClients, resource_id: str, state: Properties) -> Properties | None:
        """The outputs as AWS has them now, or None where it is gone.

        - `state`: the outputs recorded before, or the inputs; what AWS never shows is kept from there.
        """
        with refusals_as(f"reading {self.label} ({resource_id})", self.service):
            try:
                live = self._live(clients, resource_id, state)
            except ClientError as error:
                if is_gone(error):
                    return None
                raise
        if live is None:
            return None
        outputs = {key: value for key, value in state.items() if key not in ("__defaults", "id")}
        for key, value in whole_numbers(live).items():
            if value is None:
                if not absent(outputs.get(key)):
                    outputs.pop(key)
            else:
                outputs[key] = merged(outputs.get(key), value) if key not in self.maps else value
        return outputs

    def inputs_from(
        self, recorded: Properties, outputs: Properties, default_tags: Mapping[str, str] | None = None
    ) -> Properties:
        """The inputs that would describe `outputs`: the recorded ones, with what was changed in AWS by hand.

        With nothing recorded (an import) every argument that AWS shows is given.
        """
        if not recorded:
            inputs = {key: outputs[key] for key in self.inputs if not absent(outputs.get(key)) and key != "tags"}
        else:
            inputs = {
                key: outputs[key] if key in self.maps else narrowed(value, outputs[key], self.maps)
                for key, value in recorded.items()
                if key in outputs and key not in ("tags", "tagsAll", "__defaults")
            }
            if "__defaults" in recorded:
                inputs["__defaults"] = recorded["__defaults"]
        if self.taggable:
            everything: dict[str, str] = nested(outputs, "tagsAll")
            own = {
                key: value
                for key, value in everything.items()
                if key in recorded.get("tags", {}) or (default_tags or {}).get(key) != value
            }
            if own or "tags" in recorded:
                inputs["tags"] = own
            if everything or "tagsAll" in recorded:
                inputs["tagsAll"] = everything
        return inputs

    def update(
        self, clients: AwsClients, resource_id: str, old: Properties, new: Properties, state: Properties | None = None
    ) -> Properties:
        """Bring the resource from the `old` inputs to the `new` ones in place, wait, and return its outputs."""
        state = {**old, **(state or {})}
        with refusals_as(f"updating {self.label} ({resource_id})", self.service):
            before, after = nested(old, "tagsAll"), nested(new, "tagsAll")
            if before != after:
                put = {key: value for key, value in after.items() if before.get(key) != value}
                self._tag(clients, resource_id, state, put, [key for key in before if key not in after])
            rest = [
                path for path in self.diff(old, new).changes if not covers("tags", path) and not covers("tagsAll", path)
            ]
            if rest:
                self._update(clients, resource_id, old, new)
            self._settle(clients, resource_id, new)
        outputs = self.read(clients, resource_id, {**new, **self._kept(state)})
        if outputs is None:
            raise AwsResourceError(f"updating {self.label} ({resource_id}): it was deleted meanwhile; run refresh")
        return outputs

    def _kept(self, state: Properties) -> Properties:
        """The computed part of the state, by which some types find themselves again."""
        return {key: state[key] for key in self.computed if key in state and key not in self.inputs}

    def delete(self, clients: AwsClients, resource_id: str, state: Properties) -> None:
        """Delete and wait until it is gone; a resource that doesn't exist is done."""

        def attempt() -> bool:
            try:
                self._delete(clients, resource_id, state)
            except ClientError as error:
                if is_gone(error):
                    return True
                # What depends on it may still be on its way out.
                if error_code(error) in ("DependencyViolation", "ResourceInUseException", "DeleteConflict"):
                    refused.append(error)
                    return False
                raise
            return True

        refused: list[ClientError] = []
        with refusals_as(f"deleting {self.label} ({resource_id})", self.service):
            try:
                clients.wait(f"whatever depends on {resource_id}", attempt, _DEPENDENTS_LIMIT_S)
            except AwsResourceError:
                if not refused:
                    raise
                raise refused[-1] from None
        clients.wait(
            f"{self.label} ({resource_id}) to be deleted", lambda: self.read(clients, resource_id, state) is None
        )

    def _identity(self, name: str, inputs: Properties) -> str:
        return str(inputs.get(self.name_key, name)) if self.name_key else name
