// main() of a program with the tests of a whole room. With the name of a file it runs only the tests of this file:
//     tests_of_ROOM [test_NAME.cpp] [GoogleTest's own options]
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>

namespace {

// Returns GoogleTest's filter for all tests in `file`; empty if it has none.
std::string tests_in(const std::string& file) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  std::string filter;
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) {
      const testing::TestInfo& test = *suite.GetTestInfo(k);
      if (std::filesystem::path(test.file()).filename() == file)
        filter += std::string(filter.empty() ? "" : ":") + suite.name() + "." + test.name();
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc == 2) {
    const std::string filter = tests_in(argv[1]);
    if (filter.empty()) {
      std::fprintf(stderr, "%s has no test of a file %s\n", argv[0], argv[1]);
      return 2;
    }
    GTEST_FLAG_SET(filter, filter);
  }
  return RUN_ALL_TESTS();
}
