// Test programs start with the matrix kernels that MoEScope picks for itself.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/frame/frame.h"
#include "core/numerics/matrix_units.h"
#include "core/numerics/processor.h"

namespace {

TEST(Kernels, MatrixUnitsOfARecordingAreNamedAndAskedFor) {
  using namespace moescope;
  const Kernels current = kernels_here();
  EXPECT_EQ(parse_kernels(current.text()), current);
  Kernels other_kernels = current;
  other_kernels.units = kNoMatrixUnits;
  const KernelCheck before = check_kernels(other_kernels.text());
  if (has_matrix_unit()) {
    EXPECT_EQ(before.outcome, KernelCheck::Outcome::other);
    EXPECT_EQ(before.units, "off");
    EXPECT_TRUE(before.core.empty());
  } else {
    EXPECT_EQ(before.outcome, KernelCheck::Outcome::equal);
  }
  other_kernels.units = "own tiles sme";
  const KernelCheck unknown = check_kernels(other_kernels.text());
  EXPECT_EQ(unknown.outcome, KernelCheck::Outcome::other);
  EXPECT_FALSE(unknown.helps());
  EXPECT_NE(unknown.text.find("cannot run own tiles sme"), std::string::npos) << unknown.text;
  EXPECT_FALSE(parse_kernels("OpenBLAS 0.3.21 Zen, 16-lane-tiled loops, units"));
  EXPECT_FALSE(parse_kernels("OpenBLAS 0.3.21 Zen, 16-lane-tiled loops"));
}

// Kernels of this machine, of other machines, and of logs that other programs wrote.
TEST(Kernels, WhatMultipliedIsSaidAsItWasRecorded) {
  using namespace moescope;
  const auto by = [](std::string_view kernels) { return multiplied_by(kernels); };
  EXPECT_EQ(by("OpenBLAS 0.3.21 SkylakeX, 16-lane-tiled loops, own tiles amx"),
            "AMX for BF16 and quantized operands, OpenBLAS 0.3.21 (SkylakeX) for FP32");
  EXPECT_EQ(by("OpenBLAS 0.3.21 Zen, 16-lane-tiled loops, own tiles avx512_bf16"),
            "AVX-512 BF16 for BF16 and quantized operands, OpenBLAS 0.3.21 (Zen) for FP32");
  EXPECT_EQ(by("OpenBLAS 0.3.21 Haswell, 16-lane-tiled loops, no matrix units"), "OpenBLAS 0.3.21 (Haswell)");
  EXPECT_EQ(by(""), "");
  EXPECT_EQ(by("cuBLAS on H200"), "");
  EXPECT_EQ(by(kernels_here().text()).starts_with("OpenBLAS"), !has_matrix_unit());
}

TEST(Kernels, PortableProductsAreTheSameOnEveryProcessor) {
  using namespace moescope;
  EXPECT_EQ(kernels_text(true), kPortableKernels);
  EXPECT_EQ(kernels_text(false), kernels_here().text());
  EXPECT_EQ(check_kernels(kernels_text(true)).outcome, KernelCheck::Outcome::equal);
  const KernelCheck later_version = check_kernels("portable products 2");
  EXPECT_EQ(later_version.outcome, KernelCheck::Outcome::other);
  EXPECT_FALSE(later_version.helps());
  EXPECT_EQ(multiplied_by(kernels_text(true)), "portable products");
}

TEST(Kernels, AutoAndOffCanAlwaysBeChosen) {
  using namespace moescope;
  for (const char* always : {"auto", "off"}) EXPECT_TRUE(can_choose_matrix_unit(always));
  EXPECT_FALSE(can_choose_matrix_unit("tensor_cores"));
  if (has_matrix_unit()) {
    EXPECT_TRUE(can_choose_matrix_unit(kMatrixUnitNames[static_cast<int>(matrix_unit())]));
  }
}

TEST(Kernels, AChoiceOfMatrixUnitsThatIsNotThereIsRefused) {
  using namespace moescope;
  EXPECT_NE(choose_matrix_unit("tensor_cores").find("allowed: auto"), std::string::npos);
  if (matrix_unit() != MatrixUnit::amx) {
    EXPECT_NE(choose_matrix_unit("amx").find("amx"), std::string::npos);
  }
  EXPECT_EQ(choose_matrix_unit("auto"), "");
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
