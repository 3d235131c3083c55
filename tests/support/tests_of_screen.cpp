// main() of the program with all tests of the window. It runs the tests of one file:
//     tests_of_screen qt_NAME [Qt Test's own options]
#include <QApplication>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>

#include "tests/support/screen_test.h"

namespace moescope {
namespace {

std::map<std::string, ScreenTestRun>& runs_by_name() {
  static std::map<std::string, ScreenTestRun> runs;
  return runs;
}

}  // namespace

bool add_screen_test(const char* source_file, ScreenTestRun run) {
  runs_by_name()[std::filesystem::path(source_file).stem()] = run;
  return true;
}

}  // namespace moescope

int main(int argc, char** argv) {
  const auto& runs = moescope::runs_by_name();
  const auto found = argc < 2 ? runs.end() : runs.find(argv[1]);
  if (found == runs.end()) {
    std::fprintf(stderr, "usage: %s NAME [options of Qt Test], where NAME is one of\n", argv[0]);
    for (const auto& [name, run] : runs) std::fprintf(stderr, "  %s\n", name.c_str());
    return 2;
  }
  std::copy(argv + 2, argv + argc + 1, argv + 1);  // with the null pointer at the end
  --argc;
  QApplication app(argc, argv);
  app.setAttribute(Qt::AA_Use96Dpi, true);
  return found->second(argc, argv);
}
