// The main function of every test program: Catch2's session with kdart's options.
#include <catch2/catch_session.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
#include <filesystem>
#include <iostream>
#include <string>

#include "tests/support/device.h"
#include "tests/support/options.h"

namespace kdart::test {
namespace {

struct Options {
  std::filesystem::path data = "tests/data";
  std::string device = "cpu:0";
  std::string required_backend;
};

Options& options() {
  static Options instance;
  return instance;
}

constexpr int failed = 1;
constexpr int all_skipped = 4;  // as Catch2 has it

// Whether anything failed: Catch2's exit code may be the number of failures, which may be 4.
class Failures final : public Catch::EventListenerBase {
 public:
  using EventListenerBase::EventListenerBase;
  void testRunEnded(const Catch::TestRunStats& run) override { any = any || run.totals.testCases.failed > 0; }
  static inline bool any = false;
};
CATCH_REGISTER_LISTENER(Failures)

bool lists_only(Catch::Session& session) {
  const auto& config = session.configData();
  return config.showHelp || config.libIdentify || config.listTests || config.listTags || config.listReporters ||
         config.listListeners;
}

// The program's exit code, from Catch2's.
int judge(int code) {
  if (Failures::any) return failed;
  if (code != 0) return code;
  if (has_missed_device()) return all_skipped;
  const std::string& required = options().required_backend;
  if (required.empty() || has_opened_device_of(required)) return 0;
  std::cerr << "--require-device " << required << ": no test ran on a device of it (--device " << options().device
            << ")\n";
  return failed;
}

}  // namespace

const std::filesystem::path& test_data() {
  return options().data;
}
const std::string& test_device() {
  return options().device;
}
const std::string& required_backend() {
  return options().required_backend;
}

}  // namespace kdart::test

int main(int argc, char** argv) {
  using Catch::Clara::Opt;
  auto& options = kdart::test::options();
  std::string data = options.data.string();

  Catch::Session session;
  session.cli(
      session.cli() | Opt(data, "DIR")["--data"]("folder of the test data (default: tests/data)") |
      Opt(options.device, "ID")["--device"]("device of the device tests (default: cpu:0)") |
      Opt(options.required_backend, "BACKEND")["--require-device"]("fail when no test ran on a device of BACKEND"));
  if (const int code = session.applyCommandLine(argc, argv); code != 0) return code;

  options.data = data;
  if (!std::filesystem::is_directory(options.data)) {
    std::cerr << "no test data at " << options.data << "; run from the source folder or pass --data DIR\n";
    return 2;
  }
  const int code = session.run();
  if (kdart::test::lists_only(session)) return code;
  return kdart::test::judge(code);
}
