#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/telemetry/frame/change_marker.h"
#include "core/telemetry/logs/import_table.h"
#include "core/telemetry/logs/log_settings.h"

namespace moescope {
namespace {

Imported read(const std::string& text, const ImportOptions& options = {}, const char* file = "moescope_table.csv") {
  const auto path = std::filesystem::temp_directory_path() / file;
  std::ofstream(path, std::ios::binary) << text;
  return import_table(path.string(), options);
}

TEST(ImportTable, StepLayerExpertCount) {
  const Imported table = read(
      "step,layer,expert,count\n0,1,0,5\n0,1,2,7\n0,3,1,12\n1,1,0,12\r\n\n1,3,1,x\n1,3,2\n1,3,1,6\n1,3,2,-6\n1,3,2,"
      "6\n");
  EXPECT_EQ(table.bad.count(), 3);
  EXPECT_EQ(table.bad.first()[0].number, 7);
  EXPECT_EQ(table.bad.first()[1].number, 8);
  EXPECT_EQ(table.bad.first()[2].number, 10);
  ASSERT_EQ(table.runs.size(), 1u);
  const History& history = *table.runs[0];
  EXPECT_EQ(history.info().moe_layers, (std::vector<int>{1, 3}));
  EXPECT_EQ(history.info().n_experts, 3);
  EXPECT_EQ(history.steps(), (StepRange{0, 1}));
  EXPECT_EQ(history.frame_at(0)->routers[0].tokens_per_expert, (std::vector<std::uint32_t>{5, 0, 7}));
  EXPECT_EQ(history.frame_at(1)->routers[1].tokens_per_expert, (std::vector<std::uint32_t>{0, 6, 6}));
  EXPECT_FLOAT_EQ(history.value_at(Metric::max_vio, 3, 0), 2);
  EXPECT_TRUE(is_missing(history.value_at(Metric::ce_loss, kWholeRun, 1)));
}

TEST(ImportTable, ARunNamedAfterItsFileStaysOnOneLine) {
  const Imported table = read("step,layer,expert,count\n0,1,0,5\n", {}, "moescope\nerror: forged.csv");
  ASSERT_EQ(table.runs.size(), 1u);
  EXPECT_EQ(table.runs[0]->info().name, "moescope\\nerror: forged");
}

TEST(ImportTable, ColumnsInAnyOrderAndNone) {
  const Imported named = read("expert, Layer ,time,COUNT,step\n3,0,9.5,8,4\n");
  EXPECT_EQ(named.runs[0]->frame_at(4)->routers[0].tokens_per_expert, (std::vector<std::uint32_t>{0, 0, 0, 8}));
  const Imported unnamed = read("4,0,3,8\n");
  EXPECT_EQ(unnamed.runs[0]->frame_at(4)->routers[0].tokens_per_expert, (std::vector<std::uint32_t>{0, 0, 0, 8}));
  EXPECT_THROW(read("step,layer,expert,count\n"), std::runtime_error);
  EXPECT_THROW(read("0,0,4294967296,1\n"), std::runtime_error) << "no row could be read";
}

// A prompt of three tokens, then two tokens one by one; two MoE layers, top 2 of 6.
TEST(ImportTable, TracesOfLlamaCpp) {
  for (const std::string header : {"", "layer,expert\n"}) {
    const Imported trace = read(header + "1,0\n1,5\n1,0\n1,2\n1,0\n1,1\n2,3\n2,4\n2,3\n2,4\n2,3\n2,4\n" +
                                "1,0\n1,2\n2,3\n2,1\n" + "1,5\n1,2\n2,0\n2,1\n");
    EXPECT_EQ(trace.bad.count(), 0);
    const History& history = *trace.runs[0];
    EXPECT_EQ(history.info().top_k, 2);
    EXPECT_EQ(history.info().n_experts, 6);
    EXPECT_EQ(history.steps(), (StepRange{0, 2}));
    EXPECT_EQ(history.frame_at(0)->routers[0].tokens_per_expert, (std::vector<std::uint32_t>{3, 1, 1, 0, 0, 1}));
    EXPECT_EQ(history.frame_at(2)->routers[1].tokens_per_expert, (std::vector<std::uint32_t>{1, 1, 0, 0, 0, 0}));
  }
}

TEST(ImportTable, StopsWhenAsked) {
  std::string text = "step,layer,expert,count\n";
  for (int i = 0; i < 70000; ++i) text += std::to_string(i) + ",0,1,1\n";
  ImportOptions options;
  options.progress = [](double) { return false; };
  EXPECT_TRUE(read(text, options).runs.empty());
}

TEST(LogSettings, EqualRunsUpToWhereOneChanges) {
  using Settings = std::map<std::string, std::string>;
  const Settings a{{"run", "a"}, {"seed", "1"}, {"precision", "bf16"}, {"domain_shift_step", "0"}};
  Settings b = a;
  EXPECT_EQ(same_settings_until(a, b), INT64_MAX) << "two runs of the same settings tell the noise, too";
  b["run"] = "b";
  b["seed"] = "2";
  EXPECT_EQ(same_settings_until(a, b), INT64_MAX);
  b["domain_shift_step"] = "700";
  EXPECT_EQ(same_settings_until(a, b), 699);
  b["precision"] = "mxfp8";
  EXPECT_FALSE(same_settings_until(a, b));
  EXPECT_FALSE(same_settings_until({}, {})) << "who says nothing may differ in anything";
  const auto differences = difference(a, b);
  ASSERT_EQ(differences.size(), 3u);
  EXPECT_EQ(differences[1].key, "precision");
  EXPECT_EQ(differences[1].b, "mxfp8");
}

// A run shows what chance does to another up to the first live change that only one of them got.
TEST(SameChanges, EndAtTheFirstThatOnlyOneGot) {
  History a{RunInfo{}}, b{RunInfo{}};
  const auto change = [](History& run, std::int64_t step, const char* key, const char* value) {
    run.append(change_marker(0, step, key, "", value));
  };
  EXPECT_EQ(same_changes_until(a, b), INT64_MAX);
  change(a, 50, "data.mixture", "code 1");
  change(b, 50, "data.mixture", "code 1");
  change(a, 60, "telemetry.every", "2");
  EXPECT_EQ(same_changes_until(a, b), INT64_MAX) << "of both, and one that does not touch training";
  change(a, 80, "optimizer.lr", "0.01");
  change(a, 90, "optimizer.lr", "0.004");
  EXPECT_EQ(same_changes_until(a, b), 79) << "though the settings are the same again from 90 on";
  EXPECT_EQ(same_changes_until(b, a), 79);
}

}  // namespace
}  // namespace moescope
