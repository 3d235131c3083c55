#pragma once
// Adds the test class of a file in tests/screen to the program tests_of_screen.
#include <QtTest>

namespace moescope {

// How long a test waits for a condition, in ms: long enough for a busy machine and for sanitizers.
inline constexpr int kWaitMs = 60000;

using ScreenTestRun = int (*)(int argc, char** argv);

// Registers the tests of `source_file`; `run` executes them and returns Qt Test's exit status. Returns true.
bool add_screen_test(const char* source_file, ScreenTestRun run);

template <class Test>
int run_screen_test(int argc, char** argv) {
  Test test;
  return QTest::qExec(&test, argc, argv);
}

template <class Test>
extern const bool is_screen_test_added;

}  // namespace moescope

// Stands at the end of a file, in place of QTEST_MAIN.
#define SCREEN_TEST(Test)                           \
  template <>                                       \
  const bool moescope::is_screen_test_added<Test> = \
      moescope::add_screen_test(__FILE__, &moescope::run_screen_test<Test>);
