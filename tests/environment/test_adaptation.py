from __future__ import annotations

import ast

from spadework.environment.adaptation import adapt


def imports(source: str) -> tuple[str, ...]:
    adapted, changes = adapt(source)
    ast.parse(adapted)
    return changes


def test_complete_programs_stay_as_they_are() -> None:
    source = "import math\n\ndef f():\n    return math.pi, len([])\n"
    assert adapt(source) == (source, ())


def test_missing_modules_aliases_and_members_are_imported_and_recorded() -> None:
    source = "def f():\n    return math.pi, np.zeros(2), deque(), defaultdict(int), random.Random(1)\n"
    adapted, changes = adapt(source)
    assert changes == (
        "import math",
        "import random",
        "import numpy as np",
        "from collections import defaultdict, deque",
    )
    assert adapted == "\n".join(changes) + "\n" + source


def test_annotations_need_typing_names() -> None:
    assert imports("def f(x: List[int]) -> Tuple[str, Dict[str, Any]]:\n    return x\n") == (
        "from typing import Any, Dict, List, Tuple",
    )


def test_names_that_are_defined_somewhere_else_in_scope_are_not_touched() -> None:
    assert imports("def f(math):\n    return math.pi\n") == ()
    assert imports("for random in [1]:\n    pass\n\ndef f():\n    return random.real\n") == ()
    assert imports("def g():\n    global json\n    import json\n\ndef f():\n    return json.dumps(1)\n") == ()


def test_a_local_name_in_one_function_does_not_hide_a_missing_import_in_another() -> None:
    assert imports("def f():\n    math = 1\n    return math.real\n\ndef g():\n    return math.pi\n") == ("import math",)


def test_ambiguous_names_are_left_alone() -> None:
    assert imports("def f(x):\n    return copy(x)\n") == ()
    assert imports("def f():\n    return random() + random.random()\n") == ()
    assert imports("def f():\n    return choice([1, 2])\n") == ()
    assert imports("def f():\n    return datetime.now()\n") == ()


def test_imports_go_after_the_docstring_and_future_imports() -> None:
    source = '"""Doc.\n\nMore."""\nfrom __future__ import annotations\nX = math.pi\n'
    adapted, changes = adapt(source)
    assert changes == ("import math",)
    assert adapted.split("\n")[2:6] == ['More."""', "from __future__ import annotations", "import math", "X = math.pi"]


def test_decorated_first_statements_keep_their_decorator() -> None:
    adapted, changes = adapt("@dataclass\nclass Room:\n    name: str\n")
    assert changes == ("from dataclasses import dataclass",)
    assert adapted.startswith("from dataclasses import dataclass\n@dataclass\n")


def test_marks_and_indentation_of_a_pasted_program_are_removed() -> None:
    assert adapt("\ufeffx = 1\n") == ("x = 1\n", ("byte-order mark removed",))
    assert adapt("    x = 1\n    y = 2\n") == ("x = 1\ny = 2\n", ("common indentation removed",))


def test_what_does_not_parse_comes_back_unchanged() -> None:
    assert adapt("x = = 1") == ("x = = 1", ())
    assert adapt("return math.pi = 3") == ("return math.pi = 3", ())


def test_adapting_twice_changes_nothing_more() -> None:
    adapted, _ = adapt("def f():\n    return math.pi, Counter()\n")
    assert adapt(adapted) == (adapted, ())
