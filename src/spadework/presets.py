"""Configurations by name: a preset or a TOML file, with settings changed on the command line.

Whatever is wrong is told in one sentence that names the setting, where it stands and what would be right.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from spadework.config import Config

SUFFIX = ".toml"
_SHIPPED = Path(__file__).parent / "configs"
_CHECKOUT = Path(__file__).parents[2] / "configs"

Place = Mapping[str, str]
"""Where each setting was given, by its dotted name."""


class ConfigError(Exception):
    """A configuration cannot be used; one sentence per mistake, one a line."""


def preset_files() -> dict[str, Path]:
    """The shipped presets by name: in the installed package, or in the checkout that the package runs from."""
    folder = _SHIPPED if _SHIPPED.is_dir() else _CHECKOUT
    return {path.stem: path for path in sorted(folder.glob(f"*{SUFFIX}"))}


def preset_summary(path: Path) -> str:
    """The comment at the top of a preset."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return lines[0].lstrip("# ") if lines and lines[0].startswith("#") else ""


def load_config(preset: str, overrides: Sequence[str] = ()) -> Config:
    """The configuration called ``preset`` (a shipped name or the path of a TOML file), then ``overrides``.

    An override reads `section.setting=value` with a TOML value; text needs no quotes, and `none` stands for no value
    where a setting may have none. Raises ConfigError, also for settings that no run can have together.
    """
    config = read_config(preset, overrides)
    _require_possible(config)
    return config


def read_config(preset: str, overrides: Sequence[str] = ()) -> Config:
    """Like `load_config`, but of no run: settings that no run can have together are taken. Raises ConfigError."""
    tree, places = _read(_find(preset))
    return _validated(tree, places, overrides)


def change_config(config: Config, overrides: Sequence[str]) -> Config:
    """``config`` with ``overrides``. Raises ConfigError."""
    return _validated(config.model_dump(mode="json"), {}, overrides) if overrides else config


def _validated(tree: dict[str, Any], places: dict[str, str], overrides: Sequence[str]) -> Config:
    for override in overrides:
        key, value = _parse_override(override)
        place = f"in --set {override if override.isprintable() else repr(override)}"
        _place(tree, key, value, place)
        places |= {name: place for name, _ in _leaves(_nested(key, value))}
    _require_known(tree, Config, "", places)
    try:
        return Config.model_validate(_with_none(tree, Config))
    except ValidationError as error:
        sentences = dict.fromkeys(_sentence(one, places) for one in error.errors(include_url=False))
        raise ConfigError("\n".join(sentences)) from None


def _require_possible(config: Config) -> None:
    """Limits that stand in different sections. Raises ConfigError."""
    context = config.model.max_context_tokens
    for name, tokens, whose in (
        ("designer.max_tokens", config.designer.max_tokens, config.roles.designer),
        ("designer.hint_max_tokens", config.designer.hint_max_tokens, config.roles.hint_writer),
        ("gates.judge_max_tokens", config.gates.judge_max_tokens, config.gates.judge),
    ):
        if whose == "self" and tokens >= context:
            raise ConfigError(
                f"{name} is {tokens} but model.max_context_tokens is {context}, which must hold the prompt as well; "
                f"set {name} below {context} or model.max_context_tokens above {tokens}"
            )
    if config.endpoint.base_url and not config.endpoint_users:
        raise ConfigError(
            f"endpoint.base_url is {config.endpoint.base_url!r} but nothing uses the endpoint; "
            'set roles.designer, roles.hint_writer or gates.judge to "endpoint", or leave endpoint.base_url out'
        )
    plays = config.curriculum.environments * config.curriculum.plays
    if config.learning.minibatches > plays:
        raise ConfigError(
            f"learning.minibatches is {config.learning.minibatches} but curriculum.environments times curriculum.plays "
            f"gives {plays} plays to share out; set learning.minibatches to 2 to {plays}, or play more"
        )


def _find(preset: str) -> Path:
    is_path = preset.endswith(SUFFIX) or "/" in preset
    presets = preset_files()
    if not is_path and preset in presets:
        return presets[preset]
    path = Path(preset).expanduser()
    if is_path:
        if path.is_file():
            return path
        what = "is a directory" if path.is_dir() else "does not exist"
        raise ConfigError(f"the configuration {preset} {what}; give a .toml file or a preset ({', '.join(presets)})")
    near = difflib.get_close_matches(preset, presets, n=2, cutoff=0.5)
    remedy = f"did you mean {' or '.join(near)}?" if near else f"the presets are {', '.join(presets)}"
    raise ConfigError(
        f"there is no preset {preset!r}; {remedy} (`spadework presets` lists them; a .toml file can be given as well)"
    )


def _read(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The tree of a file, and in which line each of its settings stands."""
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise ConfigError(f"the configuration {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ConfigError(f"the configuration {path} is not UTF-8 text; give a .toml file") from None
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the configuration {path} is not TOML: {error}") from None
    lines = _lines_of_keys(text)
    names = [name for name, _ in _leaves(tree)]
    return tree, {name: f"in {path}" + (f", line {lines[name]}" if name in lines else "") for name in names}


def _lines_of_keys(text: str) -> dict[str, int]:
    """Line numbers of keys as they are usually written; others are left out."""
    found: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if head := re.match(r"\s*\[([\w.\- ]+)\]", line):
            section = head[1].strip() + "."
            found.setdefault(section[:-1], number)
        elif key := re.match(r"\s*([\w.\-]+)\s*=", line):
            found.setdefault(section + key[1], number)
    return found


def _parse_override(override: str) -> tuple[str, Any]:
    key, equals, text = override.partition("=")
    key, text = key.strip(), text.strip()
    if not equals or not all(re.fullmatch(r"[\w\-]+", part) for part in key.split(".")):
        raise ConfigError(f"--set {override!r} does not read section.setting=value, for example curriculum.plays=8")
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return key, text
    is_text = _annotation(key) is str and not isinstance(parsed["value"], str)
    return key, text if is_text or list(parsed) != ["value"] else parsed["value"]


def _annotation(name: str) -> Any:
    """The type of the setting called ``name``; None if there is none."""
    model: type[BaseModel] | None = Config
    *sections, last = name.split(".")
    for section in sections:
        model = _section(model, section) if model is not None and section in model.model_fields else None
    return model.model_fields[last].annotation if model is not None and last in model.model_fields else None


def _nested(key: str, value: Any) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def _place(tree: dict[str, Any], key: str, value: Any, place: str) -> None:
    """Put ``value`` at the dotted ``key``."""
    *sections, last = key.split(".")
    for depth, section in enumerate(sections):
        inner = tree.setdefault(section, {})
        if not isinstance(inner, dict):
            name = ".".join(sections[: depth + 1])
            raise ConfigError(f"{name} is a setting, not a section, so that {key} does not exist ({place})")
        tree = inner
    tree[last] = value


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every section and setting of ``tree`` by its dotted name."""
    for key, value in tree.items():
        yield prefix + key, value
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")


def _section(model: type[BaseModel], key: str) -> type[BaseModel] | None:
    annotation = model.model_fields[key].annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def setting_names(model: type[BaseModel] = Config, prefix: str = "") -> Iterator[str]:
    """The dotted name of every setting."""
    for key in model.model_fields:
        inner = _section(model, key)
        if inner is None:
            yield prefix + key
        else:
            yield from setting_names(inner, f"{prefix}{key}.")


def _require_known(tree: Mapping[str, Any], model: type[BaseModel], prefix: str, places: Place) -> None:
    for key, value in tree.items():
        name = prefix + key
        where = places.get(name, "in the configuration")
        if key not in model.model_fields:
            raise ConfigError(f"there is no setting {name} ({where}); {_nearest(key, model, prefix)}")
        inner = _section(model, key)
        if inner is not None and not isinstance(value, Mapping):
            first = next(iter(inner.model_fields))
            raise ConfigError(
                f"{name} is a section, not a setting ({where}); name one of its own, such as {name}.{first}"
            )
        if inner is None and isinstance(value, Mapping):
            raise ConfigError(f"{name} is a setting, not a section ({where}); give it one value")
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{name} is {value} ({where}); it should be a finite number")
        if isinstance(value, bool) and model.model_fields[key].annotation in (int, float):
            raise ConfigError(f"{name} is {str(value).lower()} ({where}); it should be a number")
        if inner is not None:
            _require_known(value, inner, f"{name}.", places)


def _nearest(key: str, model: type[BaseModel], prefix: str) -> str:
    """What was probably meant: the same name elsewhere, a sibling, or anything alike."""
    names = list(setting_names())
    elsewhere = [name for name in names if name.split(".")[-1] == key]
    siblings = [prefix + name for name in difflib.get_close_matches(key, model.model_fields)]
    near = [*elsewhere, *siblings, *difflib.get_close_matches(prefix + key, names, cutoff=0.5)]
    if near:
        return f"did you mean {near[0]}?"
    return f"here are {', '.join(prefix + name for name in model.model_fields)}"


def _with_none(tree: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """``tree`` with the text `none` as None where a setting may have no value: TOML has no word for it."""
    changed: dict[str, Any] = {}
    for key, value in tree.items():
        inner = _section(model, key)
        may_be_none = type(None) in get_args(model.model_fields[key].annotation)
        if inner is not None:
            changed[key] = _with_none(value, inner)
        else:
            changed[key] = None if may_be_none and value in ("none", "None") else value
    return changed


def _sentence(error: Any, places: Place) -> str:
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    name = ".".join(str(part) for part in error["loc"])
    setting = next((known for known in setting_names() if name == known or name.startswith(f"{known}.")), name)
    where = f" ({places[setting]})" if setting in places else ""
    legal = error["msg"][0].lower() + error["msg"][1:]
    legal = legal.removeprefix("input should be ").replace("a valid tuple", 'a list such as ["a", "b"]')
    return f"{name} is {_written(error['input'])}{where}; it should be {legal}"


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)
