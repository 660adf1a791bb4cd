"""The pool finds near-duplicates as the index in memory does, and reads only what may be alike."""

from pathlib import Path

from spadework.curriculum.novelty import PoolNovelty
from spadework.environment.fingerprint import Fingerprint, MemoryNoveltyIndex, bands, fingerprint, minhash
from spadework.environment.program import program_id
from spadework.store.pool import Pool
from spadework.store.records import EnvironmentRecord, IterationRecords

PROGRAMS = [path.read_text() for path in sorted((Path(__file__).parents[1] / "programs" / "sound").glob("*.py"))]


def record(source: str, iteration: int, slot: int) -> EnvironmentRecord:
    print_ = fingerprint(source)
    return EnvironmentRecord(
        id=program_id(source),
        round=iteration,
        iteration=iteration,
        slot=slot,
        skill="logical deduction",
        document_id="doc",
        class_name="AnyEnv",
        source=source,
        hint="",
        summary="",
        fingerprint=print_.digest,
        shingles=tuple(print_.shingles.tolist()),
        bands=bands(minhash(print_.shingles)),
    )


def nearest(index: PoolNovelty | MemoryNoveltyIndex, found: Fingerprint) -> tuple[str, float] | None:
    return index.nearest(found.digest, found.shingles)


def test_the_pool_and_the_index_in_memory_agree(tmp_path: Path) -> None:
    in_memory = MemoryNoveltyIndex()
    with Pool.open(tmp_path / "pool.sqlite") as pool:
        for number, source in enumerate(PROGRAMS):
            pool.write(IterationRecords(number, number, environments=(record(source, number, 0),)))
            found = fingerprint(source)
            in_memory.add(program_id(source), found.digest, found.shingles)
        likenesses = set()
        for source in PROGRAMS:
            renamed = fingerprint(source.replace("self.turns", "self.moves"))
            edited = fingerprint(source.replace("return", "x = 1\n        return", 1))
            for variant in (renamed, edited):
                assert nearest(PoolNovelty(pool), variant) == nearest(in_memory, variant)
            assert nearest(PoolNovelty(pool), renamed) == (program_id(source), 1.0)
            likenesses.add((nearest(PoolNovelty(pool), edited) or ("", 0.0))[1])
        assert any(0.5 < likeness < 1.0 for likeness in likenesses)


def test_programs_of_the_round_under_way_are_known_before_they_are_written(tmp_path: Path) -> None:
    first, second = PROGRAMS[:2]
    found = fingerprint(first)
    with Pool.open(tmp_path / "pool.sqlite") as pool:
        novelty = PoolNovelty(pool)
        assert nearest(novelty, found) is None
        novelty.add(program_id(first), found.digest, found.shingles)
        assert nearest(novelty, found) == (program_id(first), 1.0)
        pool.write(IterationRecords(0, 0, environments=(record(first, 0, 0), record(second, 0, 1))))
        novelty.forget_pending()
        assert nearest(novelty, found) == (program_id(first), 1.0)
        pool.rollback_to(-1)
        assert nearest(novelty, found) is None
