// What the fuzzer kept, replayed in every build: no clang needed.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/fuzz_safetensors.cpp"

TEST(FuzzCorpus, EveryInputOpensOrIsRefused) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MOESCOPE_TEST_DATA "/fuzz/safetensors")) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0);
    ++count;
  }
  EXPECT_GT(count, 100);
}
