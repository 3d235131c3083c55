#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/frame/router_stats.h"
#include "core/logs/events/event_records.h"
#include "core/logs/file_kind.h"
#include "core/logs/lines/import_jsonl.h"
#include "core/logs/lines/json_record.h"
#include "core/logs/log_exports.h"
#include "core/logs/open_runs.h"
#include "tests/support/read_lines.h"
#include "tests/support/sample_frames.h"

namespace moescope {
namespace {

const std::string kSettings =
    R"({"run":"small log","layers":3,"dense_layers":1,"experts":4,"top_k":2,"seq":5,"batch":2,"dim":16,)"
    R"("domains":["code","text"],"aux_coeff":0.5})";

ReadLines read(std::initializer_list<std::string> lines) {
  return ReadLines(lines);
}

TEST(ImportJsonl, ReadsSettingsAndSteps) {
  const auto reader =
      read({kSettings,
            R"({"step":0,"loss":5.5,"grad_norm":2.0,"tokens_per_expert":[[5,5,5,5],[20,0,0,0]],)"
            R"("expert_bias":[[0,0,0,0.1],[0,0,-0.1,0]],"aux":[1.0,1.5],"score_entropy":[1.2,1.3],"margin":[0.1,0.2],)"
            R"("domain_expert_layer":2,"domain_expert":{"text":[1,2,3,4]}})",
            R"({"step":1,"loss":5.0,"tokens_per_expert":[[8,4,4,4],[10,10,0,0]]})"});
  EXPECT_EQ(reader.bad().count(), 0);
  EXPECT_EQ(reader.history()->count(), 2);
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
  // Steps that were not logged count as at most 10 from a line to the next one (step_axis.h).
  for (const int distance : {10, 40, 4000}) {
    LogReader reader("sparse.jsonl");
    reader.read_line(R"({"step":0,"tokens_per_expert":[[30,0,0,0]]})");
    for (int line = 1; line <= 5; ++line)
      reader.read_line("{\"step\":" + std::to_string(line * distance) + ",\"tokens_per_expert\":[[0,10,0,0]]}");
    const auto history = reader.history();
    EXPECT_FLOAT_EQ(history->value_at(Metric::max_vio_window, 0, distance), 2.0f) << distance;
    EXPECT_FLOAT_EQ(history->value_at(Metric::max_vio_window, 0, 3 * distance), 1.0f) << distance;
    EXPECT_FLOAT_EQ(history->value_at(Metric::max_vio_window, 0, 5 * distance), 3.0f) << "without step 0: " << distance;
  }
}

TEST(ImportJsonl, WithoutSettingsWhatTheStepsTellIsEnough) {
  const auto reader = read({R"({"step":7,"loss":1.5,"tokens_per_expert":[[1,2],[3,4],[5,6]]})"});
  ASSERT_TRUE(reader.history());
  EXPECT_EQ(reader.history()->info().name, "here");
  EXPECT_EQ(reader.history()->info().moe_layers, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(reader.history()->info().n_experts, 2);
  EXPECT_EQ(reader.history()->info().top_k, 0);
}

TEST(ImportJsonl, NonNumbersAsPythonWritesThemAreValues) {
  const auto reader = read({R"({"step":0,"loss":NaN,"grad_norm":Infinity,"note":"a \"NaN\" in words, -Infinity"})",
                            R"({"step":1,"loss":null})"});
  EXPECT_EQ(reader.bad().count(), 0) << reader.bad().first()[0].reason;
  const float loss = reader.history()->values(Metric::ce_loss, kWholeRun, {0, 0}).front();
  EXPECT_TRUE(std::isnan(loss));
  EXPECT_FALSE(is_missing(loss));
  EXPECT_TRUE(std::isinf(reader.history()->value_at(Metric::grad_norm, kWholeRun, 0)));
  EXPECT_TRUE(is_missing(reader.history()->values(Metric::ce_loss, kWholeRun, {1, 1}).front()));
}

TEST(ImportJsonl, BadLinesAreCountedWithTheirNumbersAndSkipped) {
  const auto reader = read({kSettings,  // 1
                            R"({"step":0,"loss":5,"tokens_per_expert":[[1,1,1,1],[1,1,1,1]]})",
                            "not json",                                                    // 3
                            "",                                                            // empty lines are none
                            R"([1,2,3])",                                                  // 5
                            R"({"loss":4})",                                               // 6
                            R"({"step":-1})",                                              // 7
                            R"({"step":"one"})",                                           // 8
                            R"({"step":1,"tokens_per_expert":[[1,1,1,1]]})",               // 9
                            R"({"step":1,"tokens_per_expert":[[1,1,1],[1,1,1]]})",         // 10
                            R"({"step":1,"tokens_per_expert":[[1,1,1,-1],[1,1,1,1]]})",    // 11
                            R"({"step":1,"tokens_per_expert":[[1,1,1,null],[1,1,1,1]]})",  // 12
                            R"({"step":1,"tokens_per_expert":{"a":1}})",                   // 13
                            R"({"step":1,"expert_bias":[[1],[2]]})",                       // 14
                            R"({"step":1,"loss":"high"})",                                 // 15
                            R"({"step":1,"domain_expert":{"code":[1,2,3,4]}})",            // 16
                            R"({"step":2,"loss":3,"tokens_per_expert":[[1,1,1,1],[1,1,1,1]]})",
                            R"({"step":3,"loss":3,"tokens_per_exp)"});  // 18, cut off
  EXPECT_EQ(reader.history()->count(), 2);
  EXPECT_EQ(reader.lines(), 18);
  std::vector<std::int64_t> numbers;
  for (const BadLine& bad : reader.bad().first()) {
    numbers.push_back(bad.number);
    EXPECT_FALSE(bad.reason.empty());
  }
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18}));
  EXPECT_EQ(reader.bad().count(), std::ssize(numbers));
  EXPECT_EQ(reader.history()->steps(), (StepRange{0, 2}));
}

TEST(ImportJsonl, ARemarkAfterTheStepsIsNoBadLine) {
  const auto reader = read({kSettings, R"({"step":0,"loss":5})", R"({"end":true,"seconds":83.4})",
                            R"({"step":1,"loss":4})", R"({"end":true,"loss":4})"});
  EXPECT_EQ(reader.history()->count(), 2);
  ASSERT_EQ(reader.bad().count(), 1);
  EXPECT_EQ(reader.bad().first().front().number, 5);
}

TEST(ImportJsonl, HugeClaimsAreRefused) {
  const auto reader = read({R"({"layers":1e300})", R"({"step":1e30})", R"({"step":0,"tokens_per_expert":[[-1e300]]})"});
  EXPECT_EQ(reader.bad().count(), 3);
  EXPECT_FALSE(reader.history());
  LineBudget budget(1000);
  budget.take(4 << 20);
  EXPECT_THROW(budget.take(65 * 1000), Unreadable);
  EXPECT_NO_THROW(budget.take(64 * 1000));
}

TEST(FrameJson, ARouterHasTheArraysOfTheLine) {
  JsonLines parser;
  RunInfo info;
  info.n_experts = 3;
  LineBudget budget(200);
  const RouterFrame router = router_from_json(
      parser.parse(R"({"layer":2,"tokens_per_expert":[1,2,3],"expert_bias":[0,0.5,null],"margin":0.25})"), info,
      budget);
  EXPECT_EQ(router.layer, 2);
  EXPECT_EQ(router.tokens_per_expert, (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_FLOAT_EQ(router.expert_bias[1], 0.5f);
  EXPECT_TRUE(is_missing(router.expert_bias[2]));
  EXPECT_FLOAT_EQ(router.margin, 0.25f);
  EXPECT_THROW(router_from_json(parser.parse(R"({"layer":2,"tokens_per_expert":[1,2]})"), info, budget), Unreadable);
  EXPECT_EQ(setting(parser.parse(R"({"num_experts_per_tok":6})"), "top_k", 100), 6);
  EXPECT_EQ(run_info_from_json(parser.parse(R"({"moe_layers":[1,3],"run":4,"seq":8,"batch":2})")).tokens_per_step, 16);
}

TEST(ImportJsonl, ARunThatGoesBackReplacesWhatFollowed) {
  const auto reader =
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

// The program reads what it writes: every field of every row, NaN and infinities, two runs in one file.
TEST(ImportJsonl, WhatTheProgramWritesItReadsBack) {
  std::mt19937 rng(11);
  RunInfo a = sample_info({}), b = a;
  b.run = 1;
  b.name = "twin";
  LogReader reader("own.jsonl");
  reader.read_line(to_json_line(a));
  reader.read_line(to_json_line(b));
  std::vector<TelemetryFrame> written;
  for (int step = 0; step < 3; ++step) {
    for (int run = 0; run < 2; ++run) {
      TelemetryFrame frame = sample_frame(step, {}, rng);
      add_specialisation_and_texts(frame, {}, rng);
      frame.run = run;
      frame.wire = {2, true, {1, std::uint64_t{1} << 40, 3, 4}, {0.5f, 2.5f}};
      frame.quants[1].sqnr_db = std::numeric_limits<float>::infinity();
      if (step == 2) frame.ce_loss = std::numeric_limits<float>::quiet_NaN();
      reader.read_line(to_json_line(frame));
      written.push_back(std::move(frame));
    }
  }
  EXPECT_EQ(reader.bad().count(), 0) << (reader.bad().count() ? reader.bad().first()[0].reason : "");
  const auto histories = reader.histories();
  ASSERT_EQ(histories.size(), 2u);
  for (int run = 0; run < 2; ++run) {
    const RunInfo& info = histories[static_cast<std::size_t>(run)]->info();
    EXPECT_EQ(info.run, run);
    EXPECT_EQ(info.name, run ? "twin" : "sample");
    EXPECT_EQ(info.moe_layers, a.moe_layers);
    EXPECT_EQ(info.config_toml, a.config_toml);
    EXPECT_EQ(info.domains, a.domains);
    EXPECT_EQ(info.kernels, a.kernels);
    EXPECT_EQ(std::tuple(info.n_layers, info.n_experts, info.top_k, info.tokens_per_step, info.ranks, info.window),
              std::tuple(a.n_layers, a.n_experts, a.top_k, a.tokens_per_step, a.ranks, a.window));
    for (int step = 0; step < 3; ++step) {
      const auto frame = histories[static_cast<std::size_t>(run)]->frame_at(step);
      ASSERT_TRUE(frame);
      expect_equal(*frame, written[static_cast<std::size_t>(2 * step + run)]);
    }
  }
}

TEST(ImportJsonl, ALineMayBeOneLayer) {
  auto reader = read({R"({"step":0,"layer":2,"tokens_per_expert":[1,3],"aux_loss":0.5,"loss":4})",
                      R"({"step":0,"layer":1,"tokens_per_expert":[2,2],"aux_loss":0.25,)"
                      R"("volume":{"ranks":2,"copies":[[1,1],[2,0]]},"quants":[{"layer":1,"weight":"w1",)"
                      R"("operand":"x","direction":"forward","format":"e4m3","sqnr_db":31.5}]})",
                      R"({"step":1,"layer":1,"tokens_per_expert":[4,0],"expert_bias":[0.1,-0.1]})"});
  reader.read_line(R"({"step":1,"layer":3,"tokens_per_expert":[4,0]})");  // no such layer in the first step
  reader.read_line(R"({"step":2,"layer":1,"tokens_per_expert":[4,0,0]})");
  reader.finish_step();
  EXPECT_EQ(reader.bad().count(), 2) << reader.bad().text();
  const auto history = reader.history();
  ASSERT_TRUE(history);
  EXPECT_EQ(history->info().moe_layers, (std::vector<int>{1, 2}));
  EXPECT_EQ(history->info().n_layers, 3);
  EXPECT_EQ(history->steps(), (StepRange{0, 1}));
  const auto frame = history->frame_at(0);
  ASSERT_EQ(frame->routers.size(), 2u);
  EXPECT_EQ(frame->routers[1].tokens_per_expert, (std::vector<std::uint32_t>{1, 3}));
  EXPECT_FLOAT_EQ(frame->routers[1].max_vio, 0.5f);
  EXPECT_FLOAT_EQ(frame->ce_loss, 4);
  EXPECT_FLOAT_EQ(frame->aux_loss, 0.75f);
  EXPECT_EQ(frame->routers[0].volume.copies_RR, (std::vector<std::uint32_t>{1, 1, 2, 0}));
  ASSERT_EQ(history->quant_frame_at(0)->quants.size(), 1u);
  EXPECT_FLOAT_EQ(history->quant_frame_at(0)->quants[0].sqnr_db, 31.5f);
  EXPECT_FLOAT_EQ(history->frame_at(1)->routers[0].expert_bias[1], -0.1f);
}

TEST(ImportJsonl, TheFirstLoadMayComeLate) {
  const auto reader = read({R"({"step":0,"loss":5})", R"({"step":1,"loss":4})",
                            R"({"step":2,"loss":3,"tokens_per_expert":[[1,2],[2,1]]})", R"({"step":3,"loss":2})"});
  EXPECT_EQ(reader.bad().count(), 0);
  EXPECT_EQ(reader.history()->steps(), (StepRange{0, 3}));
  EXPECT_EQ(reader.history()->info().n_experts, 2);
  EXPECT_FLOAT_EQ(reader.history()->value_at(Metric::ce_loss, kWholeRun, 0), 5);
  EXPECT_EQ(reader.history()->frame_at(3)->step, 2) << "step 3 has no load of its own";
}

TEST(ImportJsonl, ABiasThatIsToldNowAndThenIsTheLastKnownOne) {
  LogReader reader("sparse.jsonl");
  for (int step = 0; step < 40; ++step)
    reader.read_line(R"({"step":)" + std::to_string(step) + R"(,"tokens_per_expert":[[1,2]])" +
                     (step % 10 == 5 ? R"(,"expert_bias":[[)" + std::to_string(step) + ",0]]}" : std::string("}")));
  const auto history = reader.history();
  const auto bias = history->expert_bias(0, {0, 39}, 40);
  ASSERT_EQ(bias.size(), 80u);
  EXPECT_TRUE(std::isnan(bias[2 * 4])) << "nothing is known before the first";
  EXPECT_FLOAT_EQ(bias[2 * 5], 5);
  EXPECT_FLOAT_EQ(bias[2 * 14], 5);
  EXPECT_FLOAT_EQ(bias[2 * 15], 15);
  EXPECT_FLOAT_EQ(bias[2 * 39], 35);
  EXPECT_FLOAT_EQ(history->expert_bias(0, {0, 23}, 1)[0], 15);
  EXPECT_TRUE(history->frame_at(23)->routers[0].expert_bias.empty())
      << "the frame itself says nothing it does not know";
}

TEST(ImportJsonl, DomainsAreThereWithoutBytesAndPairs) {
  const auto reader =
      read({kSettings, R"({"step":0,"tokens_per_expert":[[5,5,5,5],[20,0,0,0]],"domain_expert_layer":2,)"
                       R"("domain_expert":{"text":[1,2,3,4],"code":[4,0,0,0]}})"});
  const auto special = reader.history()->specialisation_of(2, 0);
  ASSERT_TRUE(special);
  EXPECT_EQ(special->n_experts(), 4u);
  EXPECT_EQ(special->domain_DE, (std::vector<std::uint32_t>{4, 0, 0, 0, 1, 2, 3, 4}));
  EXPECT_TRUE(special->together_EE.empty());
}

TEST(ImportJsonl, LongLinesAndDeepNestingAreRefused) {
  LogReader reader("deep.jsonl");
  reader.read_line("{\"step\":0,\"a\":" + std::string(1'000'000, '['));
  EXPECT_EQ(reader.bad().count(), 1);
  LineSplitter lines;
  const std::string piece(std::size_t{1} << 20, ' ');
  for (std::size_t i = 0; i <= LineSplitter::kLongestLine >> 20; ++i) lines.add(piece, reader);
  lines.add("\n{\"step\":1,\"loss\":2}\n", reader);
  reader.finish_step();
  EXPECT_EQ(reader.bad().count(), 2);
  EXPECT_EQ(reader.history()->count(), 1);
}

TEST(FileKind, IsFoundByContentThenByName) {
  const auto folder = std::filesystem::temp_directory_path() / "moescope_file_kind";
  std::filesystem::create_directories(folder / "run");
  const auto kind_of = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    return file_kind((folder / name).string());
  };
  const std::string step = R"({"step":0,"loss":1})";
  EXPECT_EQ(kind_of("a.jsonl", step), FileKind::training_log);
  EXPECT_EQ(kind_of("a.log", R"({"run":"x"})"
                             "\n" +
                                 step + "\n"),
            FileKind::training_log);
  EXPECT_EQ(kind_of("empty.jsonl", ""), FileKind::training_log);
  EXPECT_EQ(kind_of("prose.txt", "Once upon a time, an expert of a layer"), FileKind::text);
  EXPECT_EQ(kind_of("c.csv", "step,layer,expert,count\n0,1,2,3\n"), FileKind::load_table);
  EXPECT_EQ(kind_of("trace.csv", "0,17\n0,3\n"), FileKind::load_table);
  EXPECT_EQ(kind_of("people.csv", "name,age\nx,1\n"), FileKind::unread);
  EXPECT_EQ(kind_of("w.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10)), FileKind::tensors);
  EXPECT_EQ(kind_of("renamed.bin", std::string("SQLite format 3\0", 16)), FileKind::recording);
  EXPECT_EQ(kind_of("c.toml", "preset = \"nano\"\n"), FileKind::config);
  EXPECT_EQ(file_kind(std::string(MOESCOPE_TEST_DATA) + "/../assets/lessons/02-rich-get-richer.toml"),
            FileKind::lesson);
  EXPECT_EQ(file_kind(folder.string()), FileKind::text);
  EXPECT_EQ(kind_of("run/events.out.tfevents.1.host", framed_record("x")), FileKind::event_file);
  EXPECT_EQ(file_kind((folder / "run").string()), FileKind::event_file);
  EXPECT_THROW(file_kind("/no/such/file"), std::runtime_error);
  std::filesystem::remove_all(folder);
}

TEST(OpenRuns, SeveralFilesAreSeveralRuns) {
  const std::string folder = std::string(MOESCOPE_TEST_DATA) + "/../assets/samples/";
  double last = 0;
  ImportOptions options;
  options.progress = [&](double share) {
    EXPECT_GE(share, last);
    last = share;
    return true;
  };
  const OpenedRuns opened = open_runs({folder + "unbalanced_bf16.jsonl", folder + "domain_shift.jsonl"}, options, 4);
  ASSERT_EQ(opened.histories.size(), 2u);
  EXPECT_EQ(opened.histories[0]->info().run, 0);
  EXPECT_EQ(opened.histories[1]->info().run, 1);
  EXPECT_EQ(opened.histories[1]->info().name, "domain_shift");
  EXPECT_DOUBLE_EQ(last, 1);
  options.progress = {};
  EXPECT_THROW(open_runs({folder + "domain_shift.jsonl", folder + "domain_shift.jsonl"}, options, 1),
               std::runtime_error);
}

TEST(ImportJsonl, TheSamplesAreRead) {
  const std::string folder = std::string(MOESCOPE_TEST_DATA) + "/../assets/samples/";
  const Imported log = import_jsonl(folder + "domain_shift.jsonl");
  EXPECT_EQ(log.bad.count(), 0);
  ASSERT_EQ(log.runs.size(), 1u);
  const auto& history = log.runs.front();
  EXPECT_EQ(history->info().moe_layers, (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(history->info().tokens_per_step, 24576);
  EXPECT_EQ(history->steps(), (StepRange{0, 1400}));
  const auto frame = history->frame_at(1400);
  std::uint64_t slots = 0;
  for (const std::uint32_t n : frame->routers[0].tokens_per_expert) slots += n;
  EXPECT_EQ(slots, 24576u * 6);
  EXPECT_FLOAT_EQ(frame->routers[0].max_vio, max_vio(frame->routers[0].tokens_per_expert));
  bool cancelled = false;
  ImportOptions options;
  options.progress = [&](double share) {
    EXPECT_GT(share, 0);
    cancelled = true;
    return false;
  };
  const Imported stopped = import_jsonl(folder + "domain_shift.jsonl", options);
  EXPECT_TRUE(cancelled);
  EXPECT_TRUE(stopped.runs.empty());
}

}  // namespace
}  // namespace moescope
