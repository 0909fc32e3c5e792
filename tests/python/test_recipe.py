"""Recipes: what they combine, and what is wrong with them in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from grail._native import lib
from grail.options import COMPRESS, names_of
from grail.study import recipe
from grail.study.errors import StudyError
from grail.study.recipe import Recipe
from grail.study.results import Settings, read_results

RESULTS = Path(__file__).parent.parent.parent / "docs" / "results"
BASE: dict[str, Any] = {
    "checkpoints": [{"name": "a", "path": "a.pth"}, {"name": "b", "path": "/b"}],
    "selectors": ["obs"],
    "sparsities": [0.5],
    "compensate": ["full"],
    "sites": ["ffn"],
    "calibration": {"path": "calib"},
    "evaluation": {"path": "test"},
}


def draws(selector: str) -> bool:
    return selector in ("random", "fold", "random-fold")


def recipe_of(tmp_path: Path, **more: Any) -> Recipe:
    path = tmp_path / "r.json"
    document = {key: value for key, value in {**BASE, **more}.items() if value is not None}
    path.write_text(json.dumps(document))
    return Recipe(str(path))


def settings_of(recipe: Recipe) -> list[Settings]:
    return [cell.settings for cell in recipe.cells(draws)]


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_recipes_of_results_have_the_cells_that_they_had(path: Path, tmp_path: Path) -> None:
    results = read_results(str(path))
    (tmp_path / "r.json").write_text(json.dumps(results.header["recipe"]))
    recipe = Recipe(str(tmp_path / "r.json"))
    for c in recipe.checkpoints:
        known = [r.measures for r in results.checkpoints if r.network == c.name]
        c.reads_images = known[0]["perplexity"] != known[0]["perplexity"] if known else None
    cells = set(settings_of(recipe))
    assert cells >= {cell.settings for cell in results.cells}
    assert path.stem == "vision" or len(cells) == len({c.settings for c in results.cells})


def test_lists_are_combined_in_an_order_that_shares_samples(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path, selectors=["obs", "fold"], seeds=[0, 1], samples=[8, 4])
    cells = settings_of(recipe)
    assert [(s.checkpoint, s.samples, s.seed, s.selector) for s in cells[:3]] == [
        ("a", 4, 0, "fold"),
        ("a", 4, 0, "obs"),
        ("a", 4, 1, "fold"),  # obs draws nothing, so that a second seed is the same network
    ]
    assert len(cells) == 2 * 2 * 3
    assert len(settings_of(recipe_of(tmp_path, seeds=[0, 1], repeat="calibration"))) == 2 * 2


def test_what_varies_tells_cells_apart(tmp_path: Path) -> None:
    more = {"align": [1, 8], "heal_steps": [5, 9], "heal": ["none", "block"], "target": "local"}
    texts = {s.choices for s in settings_of(recipe_of(tmp_path, **more))}
    healed = {f"align={a} heal_steps={n}" for a in (1, 8) for n in (5, 9)}
    assert texts == {"align=1", "align=8"} | healed


def test_a_grid_takes_what_it_lacks_from_the_recipe(tmp_path: Path) -> None:
    grids = [{"checkpoints": ["b"], "sparsities": [0.1], "compensate": ["repair", "full+repair"]}]
    cells = recipe_of(tmp_path, grids=grids).cells(draws)
    assert [str(cell) for cell in cells] == [
        "b, obs, 10 %, repair, 128 samples, seed 0",
        "b, obs, 10 %, full+repair, 128 samples, seed 0",
    ]
    assert recipe_of(tmp_path).checkpoints[0].path == str(tmp_path / "a.pth")


TEXT = {"name": "t", "kind": "text", "path": "t.txt"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"selectors": None}, '"selectors" is missing'),
        ({"selectors": ["obs", "ob"]}, r'selectors\[1\]: expected one of random, .*, found "ob"'),
        ({"selectors": ["obs", "obs"]}, r"selectors\[1\]: repeats an earlier entry"),
        ({"selectors": []}, r"selectors: expected an array of 1 to 1000 entries, found \[\]"),
        ({"sparsitys": [0.1]}, 'unknown key "sparsitys"; .*; did you mean "sparsities"'),
        ({"sparsities": [1]}, r"sparsities\[0\]: expected a number of at least 0 and below 1"),
        ({"sparsities": [0.1, 0.1 + 1e-14]}, '"sparsities" repeats an entry'),
        ({"samples": [0]}, r"samples\[0\]: expected an integer of 1 to 1e\+06, found 0"),
        ({"samples": [True]}, r"samples\[0\]: expected an integer"),
        ({"align": "8"}, "align: expected an integer of .*, or an array of 1 to 1000 entries"),
        ({"alpha": [-1]}, r"alpha\[0\]: expected a number of at least 0"),
        ({"tries": 5}, '"tries" has no effect without "limit" or "budget"'),
        ({"sites": None}, '"sites" is missing'),
        ({"checkpoints": [{"name": "a"}]}, r'checkpoints\[0\]: "path" is missing'),
        ({"checkpoints": [BASE["checkpoints"][0]] * 2}, r'checkpoints\[1\]: the name "a" is used'),
        ({"calibration": {"path": "c", "images": 5}}, 'give the number of .* in "samples"'),
        ({"calibration": [{"path": "c"}]}, r'calibration\[0\]: "name" is missing'),
        (
            {"calibration": {**TEXT, "checkpoints": ["x"]}},
            r'calibration.checkpoints\[0\]: .* "x"',
        ),
        ({"calibration": {**TEXT, "split": "test"}}, 'calibration: unknown key "split"'),
        ({"calibration": {**TEXT, "checkpoints": ["a"]}}, 'none of the .* for checkpoint "b"'),
        ({"grids": [{"checkpoints": ["x"]}]}, r'grids\[0\].checkpoints\[0\]: .* as "x"'),
        ({"grids": [{"align": list(range(1000)), "tries": [1, 2]}]}, "more than 1000 combinations"),
        ({"seeds": list(range(999)), "samples": list(range(1, 999))}, "more than 100000 comb"),
    ],
)
def test_what_is_wrong_is_named(more: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=said) as found:
        settings_of(recipe_of(tmp_path, **more))
    assert str(found.value).startswith(f"{tmp_path}/r.json: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "expected an object"),
        ("{", "not valid JSON"),
        ('{"a": 1, "a": 2}', "has a key twice"),
        ('{"sparsities": [NaN]}', "not a number that JSON has"),
        (" " * ((1 << 20) + 1), "too many for a recipe"),
    ],
)
def test_other_files_are_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(StudyError, match=said):
        Recipe(str(path))
    with pytest.raises(StudyError, match="cannot open"):
        Recipe(str(tmp_path / "none.json"))


def test_the_schema_names_what_the_library_has() -> None:
    file = Path(recipe.__file__).with_name("recipe.schema.json")
    definitions = json.loads(file.read_text())["$defs"].items()
    words = {name: one["enum"] for name, one in definitions if "enum" in one}
    assert sorted(words["selector"]) == sorted(names_of(lib.grail_selector_at))
    assert sorted(words["site"]) == sorted(names_of(lib.grail_site_kind_at))
    assert words["budget"] == names_of(lib.grail_budget_at)
    assert words["limit"] == names_of(lib.grail_limit_at)
    ours = {"compensate", "precision"}  # a recipe has repair beside, and computes no f64
    shared = [one for one in COMPRESS if one.words and one.keyword in words.keys() - ours]
    assert len(shared) > 10
    for option in shared:
        assert sorted(words[option.keyword]) == sorted(option.words), option.keyword
