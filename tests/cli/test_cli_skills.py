"""The skills are where a coding agent looks for them, and a user's own edits stay."""

from cli_world import World

SKILLS = (
    "palestra-adding-an-environment",
    "palestra-debugging",
    "palestra-reward-profiling",
)


def test_the_skills_are_installed_with_their_references(world: World) -> None:
    done = world.run("palestra", "skills", "install", ".claude/skills")

    assert done.code == 0, done.err
    assert {f".claude/skills/{skill}/SKILL.md" for skill in SKILLS} <= set(world.files())
    references = ".claude/skills/palestra-debugging/references"
    assert f"{references}/error-profiles.md" in world.files()
    assert world.run("palestra", "skills", "install", ".claude/skills").code == 0


def test_without_a_folder_they_go_where_agents_share_them(world: World) -> None:
    assert world.run("palestra", "skills", "install").code == 0

    assert ".agents/skills/palestra-debugging/SKILL.md" in world.files()


def test_what_was_edited_is_kept_unless_told_otherwise(world: World) -> None:
    assert world.run("palestra", "skills", "install", "skills").code == 0
    edited = world.write("skills/palestra-debugging/SKILL.md", "ours")

    refused = world.run("palestra", "skills", "install", "skills").refused()

    assert "skills/palestra-debugging/SKILL.md" in refused
    assert edited.read_text() == "ours"
    assert world.run("palestra", "skills", "install", "skills", "--overwrite").code == 0
    assert edited.read_text() != "ours"
