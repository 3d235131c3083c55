// Test programs start with the matrix kernels that MoEScope picks for itself.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "core/numerics/kernels.h"

namespace {

// Loops that were compiled for AVX-512 or AVX2 fused the products that are fused now; those for older processors did
// not.
TEST(Kernels, LoopsOfBeforeCountAsTheSameWhereTheyGaveTheSameBits) {
  using namespace moescope;
  Kernels before = kernels_here();
  for (const char* loops : {"x86-64-v4", "x86-64-v3"}) {
    before.vectors = loops;
    EXPECT_EQ(check_kernels(before.text()).outcome, KernelCheck::Outcome::same) << loops;
  }
  before.vectors = "x86-64";
  EXPECT_EQ(check_kernels(before.text()).outcome, KernelCheck::Outcome::other);
}

std::string output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string text;
  for (int c = pipe ? std::fgetc(pipe) : EOF; c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  if (pipe) pclose(pipe);
  return text;
}

TEST(Kernels, AreThoseOfTheProgramOnAProcessorUnknownToOpenBlas) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this processor has no newer kernels to pick";
#else
  GTEST_SKIP() << "OpenBLAS's old kernels are a matter of x86";
#endif
  const std::string unknown =
      "env -u OPENBLAS_CORETYPE -u MOESCOPE_RESTARTED_FROM -u MOESCOPE_RESTARTED_FOR LD_PRELOAD=" UNKNOWN_PROCESSOR " ";
  const std::string program = output_of(unknown + MOESCOPE_CLI " --version");
  const std::string test =
      output_of(unknown + std::filesystem::read_symlink("/proc/self/exe").string() + " --gtest_list_tests");
  const std::string restarted = "kernels: Prescott\nkernels: ";
  ASSERT_EQ(program.rfind(restarted, 0), 0u) << program;
  const std::string picked = program.substr(0, program.find('\n', restarted.size()) + 1);
  EXPECT_EQ(test.rfind(picked, 0), 0u) << "the program: " << picked << "this test: " << test;
}

}  // namespace
