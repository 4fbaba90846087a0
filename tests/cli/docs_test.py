"""docs/cli.md says what the program does: its flags, its choices, its exit codes, its examples."""

import pathlib
import re
import shlex

from support import ProbeTest, main, probe

MANUAL = pathlib.Path(__file__).resolve().parents[2] / "docs" / "cli.md"
VERBS = ["list", "info", "kernels", "layer", "report", "bench layer", "bench core", "bench launch"]
COMMON = "Every verb"


def sections():
    """Title -> text of each second-level section."""
    parts = re.split(r"^## (.*)\n", MANUAL.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def documented_flags(section):
    return set(re.findall(r"^\| `(--[a-z-]+)`", section, flags=re.MULTILINE))


def flags_of(help_text):
    return set(re.findall(r"^  (?:-h,)?(--[a-z-]+)", help_text, flags=re.MULTILINE))


class Manual(ProbeTest):
    def help(self, verb):
        return self.check_ok(*verb.split(), "--help").stdout

    def test_every_verb_has_a_section(self):
        titles = [title.removeprefix("kda-probe ") for title in sections() if title.startswith("kda-probe ")]
        self.assertEqual(titles, VERBS)
        for verb in VERBS:
            self.assertRegex(self.check_ok("--help").stdout, rf"(?m)^  {verb.split()[0]} ")

    def test_flags(self):
        common = documented_flags(sections()[COMMON])
        self.assertEqual(common, {"--format", "--output", "--kernel-set", "--help"})
        for verb in VERBS:
            with self.subTest(verb=verb):
                own = documented_flags(sections()[f"kda-probe {verb}"])
                self.assertEqual(flags_of(self.help(verb)), own | common)
        self.assertEqual(flags_of(self.check_ok("--help").stdout), common | {"--version"})

    def test_choices_of_mode_and_geometry(self):
        for verb in ("layer", "bench layer", "bench core"):
            section = sections()[f"kda-probe {verb}"]
            for flag in ("--mode", "--geometry", "--route", *(() if verb == "bench core" else ("--gemm",))):
                choices = re.search(rf"{flag} ([a-z0-9_.|-]+)", self.help(verb)).group(1).strip("|").split("|")
                row = re.search(rf"^\| `{flag}` .*$", section, flags=re.MULTILINE).group(0)
                self.assertGreaterEqual(len(choices), 2)
                for choice in choices:
                    self.assertIn(f"`{choice}`", row)

    def test_exit_codes(self):
        table = sections()["Errors and exit codes"]
        documented = re.findall(r"^\| (\d+) \|", table, flags=re.MULTILINE)
        self.assertEqual(documented, ["0", "1", "2", "3", "4", "5", "6", "70"])
        line = " ".join(self.check_ok("--help").stdout.split("Exit codes:")[1].split())
        self.assertEqual(re.findall(r"(?:^|, )(\d+) ", line), documented)

    def test_examples_of_the_manual_and_of_help_are_the_same(self):
        for verb in VERBS:
            with self.subTest(verb=verb):
                examples = re.findall(r"^  (kda-probe .*)$", self.help(verb).split("Examples:")[1], flags=re.MULTILINE)
                self.assertGreaterEqual(len(examples), 1)
                manual = sections()[f"kda-probe {verb}"].splitlines()
                missing = [example for example in examples if example not in manual]
                self.assertEqual(missing, [])

    def test_examples_are_no_usage_errors(self):
        examples = set(re.findall(r"^(kda-probe .*)$", MANUAL.read_text(), flags=re.MULTILINE))
        self.assertGreater(len(examples), 10)
        for example in examples:
            arguments = shlex.split(example)[1:]
            with self.subTest(example=example):
                # With a device that is not there every example ends early; 2 would say that it does not parse.
                if arguments[0] in ("layer", "bench") and "--device" not in arguments:
                    arguments += ["--device", "nosuch:0"]
                if "--output" in arguments:
                    arguments[arguments.index("--output") + 1] = str(self.folder / "out")
                self.assertNotEqual(probe(*arguments).returncode, 2)

    def test_errors_are_those_of_the_library(self):
        errors = MANUAL.parent / "errors.md"
        table = sections()["Errors and exit codes"]
        known = set(re.findall(r"`([a-z_]+)`", errors.read_text()))
        for code in re.findall(r"`([a-z]+_[a-z_]+)`", table.split("| exit code |")[1]):
            self.assertIn(code, known)


if __name__ == "__main__":
    main()
