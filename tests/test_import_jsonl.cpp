#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/telemetry/import_jsonl.h"
#include "core/telemetry/router_stats.h"

namespace moescope {
namespace {

const std::string kSettings =
    R"({"run":"small log","layers":3,"dense_layers":1,"experts":4,"top_k":2,"seq":5,"batch":2,"dim":16,)"
    R"("domains":["code","text"],"aux_coeff":0.5})";

LogReader read(std::initializer_list<std::string> lines) {
  LogReader reader("here.jsonl");
  for (const std::string& line : lines) reader.read_line(line);
  return reader;
}

TEST(ImportJsonl, ReadsSettingsAndSteps) {
  const LogReader reader =
      read({kSettings,
            R"({"step":0,"loss":5.5,"grad_norm":2.0,"tokens_per_expert":[[5,5,5,5],[20,0,0,0]],)"
            R"("expert_bias":[[0,0,0,0.1],[0,0,-0.1,0]],"aux":[1.0,1.5],"score_entropy":[1.2,1.3],"margin":[0.1,0.2],)"
            R"("domain_expert_layer":2,"domain_expert":{"text":[1,2,3,4]}})",
            R"({"step":1,"loss":5.0,"tokens_per_expert":[[8,4,4,4],[10,10,0,0]]})"});
  EXPECT_EQ(reader.bad_lines(), 0);
  EXPECT_EQ(reader.steps(), 2);
  const auto history = reader.history();
  ASSERT_TRUE(history);
  const RunInfo& info = history->info();
  EXPECT_EQ(info.name, "small log");
  EXPECT_EQ(info.source, "here.jsonl");
  EXPECT_EQ(info.moe_layers, (std::vector<int>{1, 2}));
  EXPECT_EQ(info.n_layers, 3);
  EXPECT_EQ(info.n_experts, 4);
  EXPECT_EQ(info.top_k, 2);
  EXPECT_EQ(info.tokens_per_step, 10);
  EXPECT_EQ(info.domains, (std::vector<std::string>{"code", "text"}));
  EXPECT_EQ(history->steps(), (StepRange{0, 1}));
  EXPECT_FLOAT_EQ(history->value_at(Metric::ce_loss, kWholeRun, 1), 5.0f);
  EXPECT_FLOAT_EQ(history->value_at(Metric::max_vio, 2, 0), 3.0f);
  EXPECT_FLOAT_EQ(history->value_at(Metric::max_vio, 2, 1), 1.0f);
  EXPECT_FLOAT_EQ(history->value_at(Metric::max_vio_window, 2, 1), 2.0f);  // 30 of 40 on one of four
  EXPECT_FLOAT_EQ(history->value_at(Metric::dead_fraction, 2, 1), 0.5f);
  EXPECT_FLOAT_EQ(history->value_at(Metric::router_aux_loss, 2, 0), 0.75f);
  EXPECT_FLOAT_EQ(history->value_at(Metric::aux_loss, kWholeRun, 0), 1.25f);
  EXPECT_FLOAT_EQ(history->value_at(Metric::margin, 1, 0), 0.1f);
  EXPECT_TRUE(is_missing(history->values(Metric::grad_norm, kWholeRun, {1, 1}).front()));
  EXPECT_TRUE(is_missing(history->value_at(Metric::lr, kWholeRun, 1)));
  const auto frame = history->frame_at(0);
  ASSERT_TRUE(frame);
  EXPECT_FLOAT_EQ(frame->routers[1].expert_bias[2], -0.1f);
  EXPECT_TRUE(history->frame_at(1)->routers[0].expert_bias.empty());
}

TEST(ImportJsonl, WindowsSpanStepsWhetherRecordedOrNot) {
  LogReader reader("sparse.jsonl");
  reader.read_line(R"({"step":0,"tokens_per_expert":[[30,0,0,0]]})");
  reader.read_line(R"({"step":40,"tokens_per_expert":[[0,10,0,0]]})");
  const auto history = reader.history();
  EXPECT_FLOAT_EQ(history->value_at(Metric::max_vio_window, 0, 40), 2.0f);
  reader.read_line(R"({"step":60,"tokens_per_expert":[[0,0,10,0]]})");  // step 0 is out of the window of 50 by now
  EXPECT_FLOAT_EQ(history->value_at(Metric::max_vio_window, 0, 60), 1.0f);
}

TEST(ImportJsonl, WithoutSettingsWhatTheStepsTellIsEnough) {
  const LogReader reader = read({R"({"step":7,"loss":1.5,"tokens_per_expert":[[1,2],[3,4],[5,6]]})"});
  ASSERT_TRUE(reader.history());
  EXPECT_EQ(reader.history()->info().name, "here");
  EXPECT_EQ(reader.history()->info().moe_layers, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(reader.history()->info().n_experts, 2);
  EXPECT_EQ(reader.history()->info().top_k, 0);
}

TEST(ImportJsonl, NonNumbersAsPythonWritesThemAreValues) {
  const LogReader reader = read({R"({"step":0,"loss":NaN,"grad_norm":Infinity,"note":"a \"NaN\" in words, -Infinity"})",
                                 R"({"step":1,"loss":null})"});
  EXPECT_EQ(reader.bad_lines(), 0) << reader.first_bad_lines()[0].why;
  const float loss = reader.history()->values(Metric::ce_loss, kWholeRun, {0, 0}).front();
  EXPECT_TRUE(std::isnan(loss));
  EXPECT_FALSE(is_missing(loss));
  EXPECT_TRUE(std::isinf(reader.history()->value_at(Metric::grad_norm, kWholeRun, 0)));
  EXPECT_TRUE(is_missing(reader.history()->values(Metric::ce_loss, kWholeRun, {1, 1}).front()));
}

TEST(ImportJsonl, BadLinesAreCountedWithTheirNumbersAndSkipped) {
  const LogReader reader = read({kSettings,  // 1
                                 R"({"step":0,"loss":5,"tokens_per_expert":[[1,1,1,1],[1,1,1,1]]})",
                                 "not json",                                                   // 3
                                 "",                                                           // empty lines are none
                                 R"([1,2,3])",                                                 // 5
                                 R"({"loss":4})",                                              // 6
                                 R"({"step":-1})",                                             // 7
                                 R"({"step":"one"})",                                          // 8
                                 R"({"step":1,"tokens_per_expert":[[1,1,1,1]]})",              // 9
                                 R"({"step":1,"tokens_per_expert":[[1,1,1],[1,1,1]]})",        // 10
                                 R"({"step":1,"tokens_per_expert":[[1,1,1,-1],[1,1,1,1]]})",   // 11
                                 R"({"step":1,"tokens_per_expert":[[1,1,1,0.5],[1,1,1,1]]})",  // 12
                                 R"({"step":1,"tokens_per_expert":{"a":1}})",                  // 13
                                 R"({"step":1,"expert_bias":[[1],[2]]})",                      // 14
                                 R"({"step":1,"loss":"high"})",                                // 15
                                 R"({"step":1,"domain_expert":{"code":[1,2,3,4]}})",           // 16
                                 R"({"step":2,"loss":3,"tokens_per_expert":[[1,1,1,1],[1,1,1,1]]})",
                                 R"({"step":3,"loss":3,"tokens_per_exp)"});  // 18, cut off
  EXPECT_EQ(reader.steps(), 2);
  EXPECT_EQ(reader.lines(), 18);
  std::vector<std::int64_t> numbers;
  for (const BadLine& bad : reader.first_bad_lines()) {
    numbers.push_back(bad.number);
    EXPECT_FALSE(bad.why.empty());
  }
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18}));
  EXPECT_EQ(reader.bad_lines(), std::ssize(numbers));
  EXPECT_EQ(reader.history()->steps(), (StepRange{0, 2}));
}

TEST(ImportJsonl, HugeClaimsAreRefused) {
  const LogReader reader =
      read({R"({"layers":1e300})", R"({"step":1e30})", R"({"step":0,"tokens_per_expert":[[4294967296]]})"});
  EXPECT_EQ(reader.bad_lines(), 3);
  EXPECT_EQ(reader.steps(), 0);
}

TEST(ImportJsonl, ARunThatGoesBackReplacesWhatFollowed) {
  const LogReader reader =
      read({R"({"step":0,"loss":5})", R"({"step":1,"loss":4})", R"({"step":2,"loss":3})", R"({"step":1,"loss":9})"});
  EXPECT_EQ(reader.history()->steps(), (StepRange{0, 1}));
  EXPECT_FLOAT_EQ(reader.history()->value_at(Metric::ce_loss, kWholeRun, 1), 9);
}

TEST(ImportJsonl, FilesWithoutStepsSayWhatIsWrong) {
  EXPECT_THROW(import_jsonl("/no/such/file.jsonl"), std::runtime_error);
  const auto path = std::filesystem::temp_directory_path() / "moescope_no_steps.jsonl";
  std::ofstream(path) << "hello\n";
  try {
    import_jsonl(path.string());
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("line 1"), std::string::npos) << e.what();
  }
  std::filesystem::remove(path);
}

TEST(ImportJsonl, TheSamplesAreRead) {
  const std::string folder = std::string(MOESCOPE_TEST_DATA) + "/../assets/samples/";
  const ImportedLog log = import_jsonl(folder + "domain_shift.jsonl");
  EXPECT_EQ(log.bad_lines, 0);
  ASSERT_TRUE(log.history);
  EXPECT_EQ(log.history->info().moe_layers, (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(log.history->info().tokens_per_step, 24576);
  EXPECT_EQ(log.history->steps(), (StepRange{0, 1400}));
  const auto frame = log.history->frame_at(1400);
  std::uint64_t slots = 0;
  for (const std::uint32_t n : frame->routers[0].tokens_per_expert) slots += n;
  EXPECT_EQ(slots, 24576u * 6);
  EXPECT_FLOAT_EQ(frame->routers[0].max_vio, max_vio(frame->routers[0].tokens_per_expert));
  bool cancelled = false;
  const ImportedLog stopped = import_jsonl(folder + "domain_shift.jsonl", [&](double share) {
    EXPECT_GT(share, 0);
    cancelled = true;
    return false;
  });
  EXPECT_TRUE(cancelled);
  EXPECT_FALSE(stopped.history);
}

}  // namespace
}  // namespace moescope
