// Lines in the documented format of TransformerEngine's debug features, written here: the library is not run.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/logs/file_kind.h"
#include "core/logs/log_readers.h"
#include "core/logs/open_runs.h"
#include "core/logs/runs_in_folder.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

std::string line(const std::string& name, int iteration, double value) {
  char text[400];
  std::snprintf(text, sizeof text, "INFO - %-60s iteration=%06d          value=%.4f\n", name.c_str(), iteration, value);
  return text;
}

class TeStatistics : public testing::Test {
 protected:
  TeStatistics() : root(fs::temp_directory_path() / ("moescope_te_" + std::to_string(::getpid())) / "run") {}
  ~TeStatistics() override { fs::remove_all(root.parent_path()); }
  std::string write(const fs::path& name, const std::string& text) const {
    fs::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text;
    return (root / name).string();
  }
  fs::path root;
  const std::string file = "nvdlfw_inspect_statistics_logs/nvdlfw_inspect_globalrank-0.log";
};

const QuantFrame* find(const TelemetryFrame& frame, const OperandPlace& place) {
  for (const QuantFrame& quant : frame.quants)
    if (static_cast<const OperandPlace&>(quant) == place) return &quant;
  return nullptr;
}

// A training that resumes appends to the file of its rank; each rank restarts on its own.
TEST_F(TeStatistics, AResumedTrainingReplacesTheAbandonedSteps) {
  const std::string name = "model.decoder.layers.3.mlp.experts.linear_fc1_activation_mxfp8_underflows%";
  const std::string folder = "nvdlfw_inspect_statistics_logs/";
  write(folder + "nvdlfw_inspect_globalrank-0.log",
        line(name, 1, 1) + line(name, 2, 2) + line(name, 3, 3) + line(name, 2, 8));
  write(folder + "nvdlfw_inspect_globalrank-1.log", line(name, 1, 1) + line(name, 2, 4));
  const Imported imported = import_te_statistics(root.string());
  const History& run = *imported.runs.at(0);
  EXPECT_EQ(run.steps().last, 2);
  const auto frame = run.quant_frame_at(2);
  ASSERT_TRUE(frame);
  ASSERT_EQ(frame->quants.size(), 1u);
  EXPECT_FLOAT_EQ(frame->quants[0].underflow, 0.06f);  // the mean of 8 % and 4 %
  ASSERT_EQ(imported.remarks.size(), 1u);
  EXPECT_NE(imported.remarks[0].find("continues from step 2"), std::string::npos) << imported.remarks[0];
}

TEST_F(TeStatistics, EachStatisticIsOfAnOperandOfAGemm) {
  const std::string fc1 = "model.decoder.layers.3.mlp.experts.linear_fc1",
                    qkv = "model.decoder.layers.0.self_attention.linear_qkv";
  std::string text = "INFO - Feature LogFp8TensorStats is on\n";
  for (const int iteration : {2, 4}) {
    text += line(fc1 + "_activation_mxfp8_underflows%", iteration, 0.5 * iteration);
    text += line(fc1 + "_activation_mxfp8_mse", iteration, 0.0001);
    text += line(fc1 + "_activation_mean", iteration, 0.3) + line(fc1 + "_activation_std", iteration, 0.4);
    text += line(fc1 + "_activation_cur_amax", iteration, 4.3188);
    text += line(fc1 + "_activation_mxfp8_underflows%_columnwise", iteration, 2);
    text += line(fc1 + "_gradient_mxfp8_underflows%", iteration, 3);
    text += line(fc1 + "_weight_mxfp8_mse", iteration, 0.01);
    text += line(qkv + "_weight_mxfp8_underflows%", iteration, 1) + line(qkv + "_weight_min", iteration, -7) +
            line(qkv + "_weight_max", iteration, 5);
    text += line(fc1 + "_wgrad_l2_norm", iteration, 1) + line(fc1 + "_activation_dynamic_range", iteration, 9);
  }
  const std::string path = write(file, text);
  EXPECT_EQ(file_kind(path), FileKind::te_statistics);
  EXPECT_EQ(file_kind(root.string()), FileKind::te_statistics);
  const auto listed = runs_in_folder(root.parent_path().string());
  EXPECT_TRUE(std::any_of(listed.begin(), listed.end(),
                          [&](const RunFile& run) { return run.path == fs::path(path).parent_path(); }));
  const OpenedRuns opened = open_runs({root.string()}, {}, 4);
  ASSERT_EQ(opened.histories.size(), 1u);
  const History& history = *opened.histories[0];
  const auto frame = history.quant_frame_at(4);
  ASSERT_TRUE(frame);
  ASSERT_EQ(frame->quants.size(), 5u);
  const QuantFrame* x = find(*frame, {3, Gemm::expert_w1, OperandRole::x, Direction::forward});
  ASSERT_TRUE(x);
  EXPECT_EQ(x->format.name, "mxfp8_e4m3_rceil");
  EXPECT_FLOAT_EQ(x->underflow, 0.02f);
  EXPECT_FLOAT_EQ(x->amax, 4.3188f);
  EXPECT_NEAR(x->sqnr_db, 10 * std::log10(0.25 / 0.0001), 1e-3);
  const QuantFrame* transposed = find(*frame, {3, Gemm::expert_w1, OperandRole::x, Direction::wgrad});
  ASSERT_TRUE(transposed);
  EXPECT_FLOAT_EQ(transposed->underflow, 0.02f);
  EXPECT_FLOAT_EQ(transposed->amax, 4.3188f) << "of the same tensor";
  EXPECT_TRUE(is_missing(transposed->sqnr_db));
  const QuantFrame* dy = find(*frame, {3, Gemm::expert_w1, OperandRole::dy, Direction::dgrad});
  ASSERT_TRUE(dy);
  EXPECT_FLOAT_EQ(dy->underflow, 0.03f);
  const QuantFrame* wq = find(*frame, {0, Gemm::wq, OperandRole::w, Direction::forward});
  ASSERT_TRUE(wq);
  EXPECT_FLOAT_EQ(wq->amax, 7);
  const QuantFrame* w = find(*frame, {3, Gemm::expert_w1, OperandRole::w, Direction::forward});
  ASSERT_TRUE(w);
  EXPECT_TRUE(is_missing(w->sqnr_db)) << "no mean and deviation of it were logged";
}

TEST_F(TeStatistics, FormatsAreRunsAndRanksAreAveraged) {
  const std::string fc2 = "layers.1.mlp.fc2_weight_";
  const auto write_rank = [&](int rank) {
    write("nvdlfw_inspect_statistics_logs/nvdlfw_inspect_globalrank-" + std::to_string(rank) + ".log",
          line(fc2 + "mxfp8_underflows%", 0, 1 + rank) + line(fc2 + "nvfp4_underflows%", 0, 10 + rank) +
              line(fc2 + "min", 0, rank == 0 ? -9 : -2) + line(fc2 + "max", 0, 3 + rank));
  };
  write_rank(0);
  write_rank(1);
  const Imported imported = import_te_statistics((root / "nvdlfw_inspect_statistics_logs").string());
  ASSERT_EQ(imported.runs.size(), 2u);
  EXPECT_EQ(imported.runs[0]->info().name, "TransformerEngine mxfp8");
  EXPECT_EQ(imported.runs[1]->info().name, "TransformerEngine nvfp4");
  EXPECT_EQ(imported.runs[1]->info().run, 1);
  const QuantFrame& four = imported.runs[1]->quant_frame_at(0)->quants.at(0);
  EXPECT_EQ(four.format.name, "nvfp4_te");
  EXPECT_EQ(four.gemm, Gemm::dense_w2);
  EXPECT_FLOAT_EQ(four.underflow, 0.105f);
  EXPECT_FLOAT_EQ(four.amax, 9) << "of any rank";
}

TEST_F(TeStatistics, SaysWhatIsMissing) {
  const std::string path =
      write("nvdlfw_inspect_globalrank-0.log", "INFO - layers.0: Tensor: activation, gemm fprop - FP8 quantization\n" +
                                                   line("layers.0.fc1_activation_l2_norm", 0, 1));
  EXPECT_EQ(file_kind(path), FileKind::te_statistics);
  try {
    import_te_statistics(path);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("but layers.0.fc1_activation_l2_norm"), std::string::npos) << error.what();
  }
  write("nvdlfw_inspect_globalrank-0.log",
        "INFO - a.fc1_weight_mse iteration=x value=1\nINFO - a.fc1_weight_mse iteration=1\n");
  try {
    import_te_statistics(path);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("2 lines could not be read"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace moescope
