# Sourced by the scripts here and by .ci/run: named stages that print their time.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${KDART_JOBS:-$(nproc)}
failed_stages=()

# stage NAME COMMAND...: runs the command from the source folder with no input; its output goes through. A failure ends
# the run, or, when keep_going=1, is noted in failed_stages. Never call it where set -e is off (if, &&, ||): bash would
# then ignore set -e inside the stage as well.
stage() {
  local name=$1 started=$SECONDS code=0
  shift
  printf '\n==> %s\n' "$name"
  set +e
  (
    set -euo pipefail
    cd "$root"
    "$@"
  ) </dev/null
  code=$?
  set -e
  if ((code == 0)); then
    printf '==> %s: %d s\n' "$name" $((SECONDS - started))
    return 0
  fi
  printf '==> %s: FAILED with exit code %d after %d s\n' "$name" "$code" $((SECONDS - started))
  failed_stages+=("$name")
  ((${keep_going:-0})) || exit 1
}

# configure_and_build PRESET [CMAKE OPTION]...: everything that the preset builds, in build/PRESET.
configure_and_build() {
  local preset=$1 log=build/$1-configure.log
  shift
  mkdir -p build
  cmake --preset "$preset" "$@" >"$log" 2>&1 || { cat "$log"; return 1; }
  sed -n '/^-- kdart /,/^-- Configuring/ { /^-- Configuring/d; p }' "$log"
  cmake --build --preset "$preset" --parallel "$jobs"
}

# run_ctest PRESET [CTEST OPTION]...: shows what failed and the summary; the full log is build/PRESET/ctest.log.
run_ctest() {
  local preset=$1
  shift
  ctest --test-dir "build/$preset" --no-tests=error --output-on-failure --parallel "$jobs" "$@" |
    tee "build/$preset/ctest.log" | grep -Ev '^ *Start +[0-9]+: | Passed +[0-9.]+ sec$|^Internal ctest'
}

# ctest_line PRESET: the one line in which ctest sums up its last run.
ctest_line() { grep -E '[0-9]+% tests passed' "$root/build/$1/ctest.log"; }
