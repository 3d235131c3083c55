#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "core/findings/comparison/same_settings.h"
#include "core/frame/frame.h"
#include "core/logs/file_kind.h"
#include "core/logs/log_readers.h"
#include "core/logs/table/table_loads.h"

namespace moescope {
namespace {

Imported read(const std::string& text, const ImportOptions& options = {}, const char* file = "moescope_table.csv") {
  const auto path = std::filesystem::temp_directory_path() / file;
  std::ofstream(path, std::ios::binary) << text;
  return import_table(path.string(), options);
}

TEST(ImportTable, RowsOfStepLayerExpertAndCountAreRead) {
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

TEST(ImportTable, ColumnsMayHaveAnyOrderOrNoNames) {
  const Imported named = read("expert, Layer ,time,COUNT,step\n3,0,9.5,8,4\n");
  EXPECT_EQ(named.runs[0]->frame_at(4)->routers[0].tokens_per_expert, (std::vector<std::uint32_t>{0, 0, 0, 8}));
  const Imported unnamed = read("4,0,3,8\n");
  EXPECT_EQ(unnamed.runs[0]->frame_at(4)->routers[0].tokens_per_expert, (std::vector<std::uint32_t>{0, 0, 0, 8}));
  EXPECT_THROW(read("step,layer,expert,count\n"), std::runtime_error);
  EXPECT_THROW(read("0,0,4294967296,1\n"), std::runtime_error) << "no row could be read";
}

// A prompt of three tokens, then two tokens that are generated one by one; two MoE layers, top 2 of 6.
TEST(ImportTable, TracesOfLlamaCppAreRead) {
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

std::vector<std::uint32_t> loads(const Imported& table, std::int64_t step, std::size_t layer = 0) {
  const auto frame = table.runs.at(0)->frame_at(step);
  return frame && frame->step == step ? frame->routers.at(layer).tokens_per_expert : std::vector<std::uint32_t>();
}

std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return {};
}

// Returns rows of two layers of two experts in ten steps; `sorted` lists step, layer and expert, the slowest first.
std::string rows_by(const std::string& sorted, bool newest_first = false) {
  struct Row {
    std::array<int, 3> at;  // step, layer, expert
  };
  std::vector<Row> rows;
  for (int step = 0; step < 10; ++step)
    for (int layer = 0; layer < 2; ++layer)
      for (int expert = 0; expert < 2; ++expert) rows.push_back({{step, layer, expert}});
  std::ranges::stable_sort(rows, [&](const Row& a, const Row& b) {
    for (const char by : sorted) {
      const std::size_t key = std::string_view("sle").find(by);
      if (a.at[key] != b.at[key]) return (a.at[key] < b.at[key]) != (newest_first && key == 0);
    }
    return false;
  });
  std::string text = "step,layer,expert,count\n";
  for (const auto& [at] : rows)
    text += std::to_string(at[0]) + ',' + std::to_string(at[1]) + ',' + std::to_string(at[2]) + ',' +
            std::to_string(100 * at[0] + 10 * at[1] + at[2]) + '\n';
  return text;
}

TEST(ImportTable, RowsWithoutALossMayHaveAnyOrder) {
  for (const char* sorted : {"sle", "lse", "les", "els", "esl"}) {
    for (const bool newest_first : {false, true}) {
      const Imported table = read(rows_by(sorted, newest_first));
      ASSERT_EQ(table.runs[0]->count(), 10) << sorted << newest_first;
      for (std::uint32_t step = 0; step < 10; ++step)
        for (std::uint32_t layer = 0; layer < 2; ++layer)
          EXPECT_EQ(loads(table, step, layer),
                    (std::vector<std::uint32_t>{100 * step + 10 * layer, 100 * step + 10 * layer + 1}))
              << sorted << newest_first << step;
    }
  }
}

TEST(ImportTable, ARestartDropsWhatCameAfterAndSaysSo) {
  std::string text = "step,layer,expert,count\n";
  const auto write = [&](int from, int to, int count) {
    for (int step = from; step <= to; ++step)
      for (int layer = 0; layer < 2; ++layer)
        text += std::to_string(step) + ',' + std::to_string(layer) + ",0," + std::to_string(count) + '\n';
  };
  write(0, 20, 1);
  write(10, 15, 2);
  const Imported table = read(text);
  EXPECT_EQ(table.runs[0]->steps(), (StepRange{0, 15}));
  EXPECT_EQ(loads(table, 9), std::vector<std::uint32_t>{1});
  EXPECT_EQ(loads(table, 10), std::vector<std::uint32_t>{2});
  EXPECT_EQ(loads(table, 15, 1), std::vector<std::uint32_t>{2});
  ASSERT_EQ(table.remarks.size(), 1u);
  EXPECT_NE(table.remarks[0].find("continues from step 10"), std::string::npos) << table.remarks[0];
  EXPECT_NE(table.remarks[0].find("(11 logged steps)"), std::string::npos) << table.remarks[0];
  write(0, 0, 3);
  const Imported second = read(text);
  EXPECT_EQ(second.runs[0]->count(), 1);
  ASSERT_EQ(second.remarks.size(), 2u);
  EXPECT_NE(second.remarks[1].find("(16 logged steps)"), std::string::npos) << second.remarks[1];
  ASSERT_FALSE(second.runs[0]->markers().empty());
}

TableOrder order_of(const std::vector<std::pair<std::int64_t, int>>& steps_and_layers) {
  TableOrder order;
  std::int64_t line = 1;
  for (const auto& [step, layer] : steps_and_layers) order.add(step, static_cast<std::uint64_t>(layer), 0, ++line);
  return order;
}

TEST(TableOrder, IsToldByTheStepsWithinASeries) {
  const TableOrder written = order_of({{0, 0}, {0, 1}, {1, 0}, {1, 1}});
  EXPECT_EQ(written.kind(), TableOrder::Kind::as_written);
  EXPECT_FALSE(written.goes_back() || written.repeats());
  EXPECT_EQ(order_of({{0, 0}, {1, 0}, {0, 1}, {1, 1}}).kind(), TableOrder::Kind::by_step);
  EXPECT_EQ(order_of({{2, 0}, {1, 0}, {0, 0}}).kind(), TableOrder::Kind::newest_first);
  const TableOrder restart = order_of({{0, 0}, {1, 0}, {2, 0}, {1, 0}, {2, 0}});
  EXPECT_EQ(restart.kind(), TableOrder::Kind::as_written);
  EXPECT_TRUE(restart.goes_back());
  const TableOrder sorted_with_restart = order_of({{0, 0}, {1, 0}, {2, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1}});
  EXPECT_EQ(sorted_with_restart.kind(), TableOrder::Kind::lost);
  EXPECT_THROW(sorted_with_restart.kind_of("x.csv"), std::runtime_error);
  EXPECT_EQ(order_of({{3, 0}, {3, 0}}).repeated(),
            "line 3: the same step, layer and expert as in a row before (step 3)");
}

TEST(ImportTable, AnOrderThatLeavesADoubtIsRefused) {
  std::string text = "step,layer,expert,count\n";
  for (int layer = 0; layer < 2; ++layer)
    for (const int step : {0, 1, 2, 3, 4, 5, 3, 4, 5, 6})
      text += std::to_string(step) + ',' + std::to_string(layer) + ",0,1\n";
  EXPECT_NE(refusal(text).find("line 8: goes back to step 3 of the same layer and expert"), std::string::npos)
      << refusal(text);
  EXPECT_NE(refusal("step,layer,expert,count\n0,0,0,5\n1,0,0,5\n1,0,0,6\n0,1,0,5\n1,1,0,5\n")
                .find("line 4: the same step, layer and expert"),
            std::string::npos);
}

TEST(ImportTable, OneLayerNeedsNoColumn) {
  const Imported table = read("step,expert,count\n0,0,5\n0,2,7\n1,1,12\n");
  EXPECT_EQ(table.runs[0]->info().moe_layers, std::vector<int>{0});
  EXPECT_EQ(loads(table, 0), (std::vector<std::uint32_t>{5, 0, 7}));
}

TEST(ImportTable, PartsOfRanksAreAddedUp) {
  const Imported by_step = read("step,rank,layer,expert,count\n0,0,1,0,5\n0,1,1,0,7\n1,0,1,0,1\n1,1,1,0,2\n");
  EXPECT_EQ(loads(by_step, 0), std::vector<std::uint32_t>{12});
  const Imported by_rank = read("rank,step,layer,expert,count\na,0,1,0,5\na,1,1,0,7\nb,0,1,0,1\nb,1,1,0,2\n");
  EXPECT_EQ(loads(by_rank, 0), std::vector<std::uint32_t>{6});
  EXPECT_EQ(loads(by_rank, 1), std::vector<std::uint32_t>{9});
  const Imported twice = read("step,layer,expert,count\n0,1,0,5\n0,1,0,7\n");
  EXPECT_EQ(loads(twice, 0), std::vector<std::uint32_t>{7}) << "nothing says that they are parts";
  ASSERT_EQ(twice.remarks.size(), 1u);
  EXPECT_NE(twice.remarks[0].find("line 3"), std::string::npos);
  EXPECT_NE(refusal("step,rank,layer,expert,count\n0,0,1,0,4294967295\n0,1,1,0,1\n").find("more than 4294967295"),
            std::string::npos);
}

TEST(ImportTable, EveryDelimiterQuoteAndLineEndIsRead) {
  const std::vector<std::uint32_t> expected = {5, 7};
  for (const std::string text :
       {"step,layer,expert,count\n4,1,0,5\n4,1,1,7\n", "step;layer;expert;count\n4;1;0;5\n4;1;1;7\n",
        "step\tlayer\texpert\tcount\n4\t1\t0\t5\n4\t1\t1\t7\n", "step|layer|expert|count\n4|1|0|5\n4|1|1|7\n",
        "\nstep,layer,expert,count\n\n4,1,0,5\n \n4,1,1,7\n",
        "\xEF\xBB\xBFstep,layer,expert,count\r\n4,1,0,5\r\n4,1,1,7\r\n", "step,layer,expert,count\r4,1,0,5\r4,1,1,7",
        "\"step\",\"layer\",\"expert\",\"count\"\n\"4\",1,\"0\",5\n4,1,1,\"7\"\n",
        "step,note,layer,expert,count\n4,\"two\nlines, \"\"quoted\"\"\",1,0,5\n4,text,1,1,7\n",
        "step,layer,expert,count\n4,1,0,5.0\n4,1,1,7e0\n", "# a remark\nstep,layer,expert,count\n4,1,0,5\n4,1,1,7\n",
        "sep=;\nstep;layer;expert;count\n4;1;0;5\n4;1;1;7\n", "4;1;0;5\n4;1;1;7\n",
        "Step,Layer_ID,expert id,Tokens\n 4 , 1,0 ,5\n4,1,1,7\n",
        "step,layer,expert,count\n4,1,0,5\nstep,layer,expert,count\n4,1,1,7\n"}) {
    const Imported table = read(text);
    EXPECT_EQ(table.bad.count(), 0) << text << table.bad.text();
    EXPECT_EQ(loads(table, 4), expected) << text;
  }
}

TEST(ImportTable, ANumberThatIsNoneIsToldWithItsLine) {
  const Imported table = read(
      "step,layer,expert,count\n4,1,0,\"1,23\"\n4,1,1,4294967296\n4,1,1,2.5\n4,1,1,-3\n4,1,1,many\n4,1,1,\n4,1,-1,7\n"
      "4,1,\"a\nb\",7\n4,1\n4,1,1,nan\n4,1,1,9\n4,2,0,3\n4,2,1,9\n");
  EXPECT_EQ(table.runs.at(0)->frame_at(4)->routers.size(), 1u) << "layer 1 lacks an expert";
  EXPECT_EQ(loads(table, 4), (std::vector<std::uint32_t>{3, 9}));
  ASSERT_EQ(table.bad.count(), 10);
  const auto& bad = table.bad.first();
  EXPECT_EQ(bad[0].reason, "count: \"1,23\": grouped digits are ambiguous; expected a plain number");
  EXPECT_EQ(bad[1].reason, "count: \"4294967296\", expected a whole number from 0 to 4294967295");
  EXPECT_EQ(bad[2].reason, "count: \"2.5\" is not whole");
  EXPECT_EQ(bad[6].reason, "expert: -1 stands for no expert");
  EXPECT_EQ(bad[7].number, 9);
  EXPECT_EQ(bad[8].number, 11) << "a cell has two lines";
  EXPECT_EQ(bad[8].reason, "has too few columns");
  EXPECT_EQ(table.lines, 15);
}

TEST(ImportTable, RowsThatAreMissingAreToldWithTheirPlace) {
  const Imported table = read(
      "step,layer,expert,count\n0,1,0,4\n0,1,1,4\n0,1,2,4\n0,2,0,4\n0,2,1,4\n0,2,2,4\n7,1,0,4\n7,1,2,8\n7,2,0,4\n7,2,"
      "1,4\n7,2,2,4\n8,1,0,4\n8,1,1,4\n8,1,2,4\n9,2,0,12\n9,1,0,1\n9,1,1,1\n9,1,2,1\n");
  EXPECT_EQ(table.remarks,
            (std::vector<std::string>{
                "step 7, layer 1: no row of expert 1, which is read as 0 tokens (and 2 more such places)",
                "experts without tokens are left out, so that the number of experts is not known: it is read as 3, the "
                "highest that occurs and one; --experts states it",
                "step 8, layer 2: no row, so that the layer has no loads there"}));
  EXPECT_EQ(loads(table, 7), (std::vector<std::uint32_t>{4, 0, 8}));
  EXPECT_EQ(table.runs[0]->frame_at(8)->routers.size(), 1u);
  EXPECT_EQ(read("step,layer,expert\n0,0,1\n0,0,1\n0,0,2\n").remarks,
            std::vector<std::string>{"has no column of counts: each row is read as one token"});
}

TEST(ImportTable, AQuoteThatDoesNotEndIsRefused) {
  std::string text = "step,layer,expert,count\n4,1,0,5\n4,1,1,\"7\n";
  for (int i = 0; i < 200000; ++i) text += "5,1,0,5\n";
  EXPECT_NE(refusal(text).find("line 3: a cell of more than 1 MiB: is there a quotation mark"), std::string::npos)
      << refusal(text).substr(0, 300);
}

// A single wrong number in a small file must not make it take the memory and the time of a large one.
TEST(ImportTable, ASmallFileMayNotNameTooManyExperts) {
  std::string text = "step,layer,expert,count\n0,15,65535,1\n";
  for (int layer = 0; layer < 16; ++layer) text += "0," + std::to_string(layer) + ",0,1\n";
  EXPECT_EQ(read(text).runs[0]->info().n_experts, 65536) << "may be";
  for (int step = 1; step < 2000; ++step) text += std::to_string(step) + ",0,0,1\n";
  EXPECT_NE(refusal(text).find("is a number wrong? Line 2 has expert 65535, line 2 layer 15"), std::string::npos)
      << refusal(text);
}

// If a step counts tokens, the window of 50 steps covers 5 logged steps (step_axis.h). The five experts get the tokens
// by turns.
TEST(ImportTable, TheWindowCoversStepsThatAreFarApart) {
  std::string near = "step,layer,expert,count\n", far = near;
  for (int i = 0; i < 100; ++i) {
    near += std::to_string(i) + ",0," + std::to_string(i % 5) + ",8\n";
    far += std::to_string(4000000LL * i) + ",0," + std::to_string(i % 5) + ",8\n";
  }
  EXPECT_EQ(read(near).runs[0]->value_at(Metric::max_vio_window, 0, 99), 0);
  EXPECT_EQ(read(far).runs[0]->value_at(Metric::max_vio_window, 0, 99 * 4000000LL), 0);
  EXPECT_EQ(read(far).runs[0]->value_at(Metric::max_vio, 0, 99 * 4000000LL), 4);
}

// CSVLogger of pytorch-lightning 2.6 writes a row for values logged together: training and validation in any order.
TEST(ImportTable, FiguresOfLightningAreRead) {
  const Imported table = read(
      "epoch,step,train_loss,val_loss\n0,0,5.5,\n0,1,5.25,\n0,2,,5.125\n0,2,5,\n1,3,4.75,\n1,4,4.5,\n1,4,,4.625\n1,5,x,"
      "\n");
  ASSERT_EQ(table.runs.size(), 1u);
  const History& history = *table.runs[0];
  EXPECT_EQ(history.steps(), (StepRange{0, 4}));
  EXPECT_EQ(history.values_in(Metric::ce_loss, kWholeRun, history.steps()),
            (std::vector<float>{5.5f, 5.25f, 5, 4.75f, 4.5f}));
  EXPECT_EQ(history.value_at(Metric::val_loss, kWholeRun, 2), 5.125f);
  EXPECT_EQ(history.value_at(Metric::val_loss, kWholeRun, 4), 4.625f);
  EXPECT_EQ(table.bad.count(), 1);
  EXPECT_EQ(table.bad.first()[0].number, 9);
  EXPECT_EQ(table.remarks, std::vector<std::string>{"not shown: epoch"});
}

TEST(ImportTable, NewestRowsMayComeFirstAndCellsMayHoldLists) {
  const Imported table = read(
      "step;loss;tokens_per_expert\n2;3.5;\"[[1, 2], [3, 0]]\"\n1;NaN;\"[[2, 1], [0, 3]]\"\n0;5;\"[[3, 0], [1, "
      "2]]\"\n");
  const History& history = *table.runs.at(0);
  EXPECT_EQ(history.steps(), (StepRange{0, 2}));
  EXPECT_EQ(history.frame_at(2)->routers.at(1).tokens_per_expert, (std::vector<std::uint32_t>{3, 0}));
  EXPECT_TRUE(std::isnan(history.value_at(Metric::ce_loss, kWholeRun, 1)));
}

// A table to which another program appends is read once, to the end that it has at that time.
TEST(ImportTable, AFileThatGrowsIsReadToItsPresentEnd) {
  const auto path = std::filesystem::temp_directory_path() / "moescope_growing_table.csv";
  std::ofstream(path) << "step,layer,expert,count\n0,0,0,1\n";
  std::atomic<bool> stop = false;
  std::jthread writer([&] {
    std::ofstream file(path, std::ios::app);
    for (int step = 1; !stop; ++step) {
      const int layers = 1 + step % 50;
      for (int layer = 0; layer < layers; ++layer) {
        file << step << ',' << layer << ',' << step % 300 << ",1";
        file.flush();
        std::this_thread::sleep_for(std::chrono::microseconds(20));
        file << '\n';
      }
    }
  });
  for (int i = 0; i < 30; ++i) {
    ImportOptions options;
    options.growing = i % 2 == 0;
    const Imported table = import_table(path.string(), options);
    ASSERT_EQ(table.runs.size(), 1u);
    EXPECT_EQ(table.bad.count(), 0) << table.bad.text();
  }
  stop = true;
}

TEST(ImportTable, TheLastLineOfAGrowingFileIsLeftForTheNextReading) {
  ImportOptions growing;
  growing.growing = true;
  const std::string text = "step,layer,expert,count\n0,0,0,12\n1,0,0,12";
  EXPECT_EQ(read(text, growing).runs[0]->count(), 1) << "it may become 1234";
  EXPECT_EQ(read(text).runs[0]->count(), 2);
}

TEST(ImportTable, StopsWhenAsked) {
  std::string text = "step,layer,expert,count\n";
  for (int i = 0; i < 70000; ++i) text += std::to_string(i) + ",0,1,1\n";
  ImportOptions options;
  options.progress = [](double) { return false; };
  EXPECT_TRUE(read(text, options).runs.empty());
}

TEST(LogSettings, AreEqualUpToTheStepOfAChange) {
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
  Settings other_batch = a, more_tokens = a;
  other_batch["tokens_per_step"] = "10";
  more_tokens["tokens_per_step"] = "20";
  EXPECT_FALSE(same_settings_until(other_batch, more_tokens)) << "a number of tokens is no step of an event";
  EXPECT_FALSE(same_settings_until({}, {})) << "who says nothing may differ in anything";
  b["balance"] = "quantile";
  Settings more = a;
  more["aux_coeff"] = "0.01";
  const auto differences = difference(more, b);
  ASSERT_EQ(differences.size(), 5u);
  EXPECT_EQ(differences[0].key, "aux_coeff");
  EXPECT_EQ(differences[0].b, "not given");
  EXPECT_EQ(differences[1].key, "balance");
  EXPECT_EQ(differences[1].a, "not given");
  EXPECT_EQ(differences[3].key, "precision");
  EXPECT_EQ(differences[3].b, "mxfp8");
}

// Two runs differ by chance alone up to the first live change that only one of them got.
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

// Rows in random order: no rule tells which of them count.
TEST(ImportTable, RowsInNoOrderAreRefused) {
  std::vector<std::string> rows;
  for (int step = 0; step < 20; ++step)
    for (int expert = 0; expert < 4; ++expert)
      rows.push_back(std::to_string(step) + ",1," + std::to_string(expert) + ",7\n");
  std::mt19937 random(1);
  for (std::size_t i = rows.size() - 1; i > 0; --i) std::swap(rows[i], rows[random() % (i + 1)]);
  std::string text = "step,layer,expert,count\n";
  for (const std::string& row : rows) text += row;
  try {
    read(text);
    FAIL() << "most of the steps would be dropped";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("not in the order of their steps"), std::string::npos) << error.what();
  }
}

// An expert has 0 tokens if the layer has no row of it, but not if its row cannot be read.
TEST(ImportTable, ARowThatCannotBeReadLeavesItsLayerWithoutLoads) {
  const Imported table = read(
      "step,layer,expert,count\n0,1,0,5\n0,1,1,12.5\n0,2,0,5\n0,2,1,6\n1,1,0,5\n1,1,1,x\n1,1,1,7\n2,1,0,5\n2,1,1,3\n2,"
      "1");
  EXPECT_EQ(table.bad.count(), 3);
  const History& run = *table.runs.at(0);
  ASSERT_EQ(run.frame_at(0)->routers.size(), 1u);
  EXPECT_EQ(run.frame_at(0)->routers[0].layer, 2);
  EXPECT_EQ(run.frame_at(1)->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{5, 7})) << "it came again";
  EXPECT_TRUE(is_missing(run.values(Metric::max_vio, 1, {2, 2}).front())) << "the last row is cut off";
  ASSERT_FALSE(table.remarks.empty());
  EXPECT_EQ(table.remarks.back(),
            "step 0, layer 1: a row could not be read, so that the layer has no loads there (and 1 more such places)");
}

// In a table that is sorted by expert, the unreadable row stands far from the others of its step.
TEST(ImportTable, ARowThatCannotBeReadIsNo0InAnyOrderOfTheRows) {
  const Imported table = read("step,layer,expert,count\n0,1,0,5\n1,1,0,5\n2,1,0,5\n0,1,1,x\n1,1,1,7\n2,1,1,7\n");
  EXPECT_TRUE(loads(table, 0).empty());
  EXPECT_EQ(loads(table, 1), (std::vector<std::uint32_t>{5, 7}));
  EXPECT_EQ(table.remarks.back(), "step 0, layer 1: a row could not be read, so that the layer has no loads there");
}

TEST(ImportTable, RunsOfOneTableAreToldApartOrRefused) {
  const Imported figures = read("run,step,loss\na,0,4\na,1,3\nb,0,2\nb,1,1\n");
  ASSERT_EQ(figures.runs.size(), 2u);
  EXPECT_EQ(figures.runs[1]->info().name, "b");
  EXPECT_EQ(figures.runs[1]->value_at(Metric::ce_loss, kWholeRun, 0), 2.0f);
  for (const char* text : {"seed,step,loss\n0,0,4\n0,1,3\n1,0,2\n",
                           "run,step,layer,expert,count\na,0,0,0,4\na,0,0,1,3\nb,0,0,0,2\nb,0,0,1,2\n"}) {
    try {
      read(text);
      ADD_FAILURE() << text;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find("names another run than the rows before"), std::string::npos);
    }
  }
  EXPECT_EQ(read("seed,step,loss\n7,0,4\n7,1,3\n").runs.at(0)->steps(), (StepRange{0, 1}));
}

TEST(ImportTable, AStepWithinTheEpochIsNoStep) {
  const Imported table = read("epoch,step,global_step,loss\n0,0,0,4\n0,1,1,3\n1,0,2,2\n1,1,3,1\n");
  EXPECT_EQ(table.runs.at(0)->steps(), (StepRange{0, 3}));
  EXPECT_EQ(table.runs.at(0)->value_at(Metric::ce_loss, kWholeRun, 2), 2.0f);
}

TEST(ImportTable, WithoutAKnownColumnItIsRefusedWithThoseItHas) {
  for (const char* text : {"Wall time,Step,Value\n1,0,4\n2,1,3\n", "\"Step\",\"run - Value\"\n\"0\",\"4\"\n"}) {
    try {
      read(text);
      ADD_FAILURE() << text;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find("none of its names is known: "), std::string::npos) << error.what();
    }
  }
}

TEST(ImportTable, ColumnsOfExpertsAreLoads) {
  const std::vector<std::uint32_t> loads = {5, 6, 7};
  for (const char* header : {"step,layer,expert_0,expert_1,expert_2", "step,layer,E0,E1,E2", "step,layer,0,1,2",
                             "step,layer,expert_0_tokens,expert_1_tokens,expert_2_tokens"}) {
    const Imported table = read(std::string(header) + "\n0,1,5,6,7\n0,3,7,6,5\n1,1,5,6,7\n1,3,7,6,5\n");
    const History& history = *table.runs.at(0);
    EXPECT_EQ(history.info().moe_layers, (std::vector<int>{1, 3})) << header;
    EXPECT_EQ(history.frame_at(1)->routers.at(0).tokens_per_expert, loads) << header;
    EXPECT_TRUE(table.remarks.empty()) << header;
  }
  EXPECT_EQ(read("step,loss,expert_2,expert_1,expert_0\n0,4,7,6,5\n")
                .runs.at(0)
                ->frame_at(0)
                ->routers.at(0)
                .tokens_per_expert,
            loads);
  const Imported layers = read("step,layer_1_expert_0,layer_1_expert_1,layer_3_expert_0,layer_3_expert_1\n0,5,6,7,8\n");
  EXPECT_EQ(layers.runs.at(0)->frame_at(0)->routers.at(1).tokens_per_expert, (std::vector<std::uint32_t>{7, 8}));
  EXPECT_NE(read("step,loss,expert_0,expert_2\n0,4,5,6\n").remarks.at(0).find("expert_{expert}"), std::string::npos)
      << "one is missing";
}

TEST(ImportTable, LoadsThatAreNoTokensDoNotCostTheLoss) {
  const Imported table = read("step,loss,expert_0,expert_1\n0,4,-0.25,0.5\n1,3,x,0.25\n");
  EXPECT_EQ(table.bad.count(), 2);
  EXPECT_EQ(table.bad.first().at(0).reason, "tokens_per_expert: -0.25 is no load of an expert");
  EXPECT_NE(table.bad.first().at(1).reason.find("expert_0: \"x\" is not a number"), std::string::npos);
  EXPECT_EQ(table.runs.at(0)->value_at(Metric::ce_loss, kWholeRun, 1), 3.0f);
}

TEST(ImportTable, ATableOfUnknownCountsIsNoListOfTokens) {
  try {
    read("step,layer,expert,fraction\n0,1,0,0.9\n0,1,1,0.1\n1,1,0,0.9\n1,1,1,0.1\n");
    ADD_FAILURE() << "every expert would have got one token";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("no column of counts that is known (fraction)"), std::string::npos);
  }
  const Imported tokens = read("step,layer,token,expert,weight\n0,1,0,0,0.5\n0,1,1,0,0.5\n0,1,1,1,0.5\n");
  EXPECT_EQ(tokens.runs.at(0)->frame_at(0)->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{2, 1}));
}

TEST(ImportTable, ListsThatNumPyAndPyTorchPrintAreRead) {
  for (const char* list : {"[5 6 7]", "[5, 6, 7]", "tensor([5, 6, 7])", "tensor([5., 6., 7.], device='cuda:0')",
                           "[[5. 6. 7.]]", "array([5,\n       6, 7])"}) {
    const Imported table = read("step,loss,tokens_per_expert\n0,4,\"" + std::string(list) + "\"\n");
    EXPECT_EQ(table.runs.at(0)->frame_at(0)->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{5, 6, 7}))
        << list;
  }
}

TEST(ImportTable, CellsWithoutAValueAreMissing) {
  const Imported table = read("step,loss,grad_norm\n0,4,NA\n1,None,1.5\n2,#N/A,null\n3,nan,2\n");
  EXPECT_EQ(table.bad.count(), 0) << table.bad.text();
  const History& history = *table.runs.at(0);
  EXPECT_EQ(history.value_at(Metric::ce_loss, kWholeRun, 0), 4.0f);
  EXPECT_EQ(history.value_at(Metric::grad_norm, kWholeRun, 1), 1.5f);
  EXPECT_TRUE(is_missing(history.values(Metric::ce_loss, kWholeRun, {1, 1}).front()));
  EXPECT_TRUE(std::isnan(history.value_at(Metric::ce_loss, kWholeRun, 3)));
}

TEST(ImportTable, LayersAndExpertsMayHaveNames) {
  const Imported table =
      read("step,layer,expert,count\n0,model.layers.3.mlp,expert_0,5\n0,model.layers.3.mlp,expert_1,6\n");
  EXPECT_EQ(table.runs.at(0)->info().moe_layers, std::vector<int>{3});
  EXPECT_EQ(table.runs.at(0)->frame_at(0)->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{5, 6}));
  EXPECT_THROW(read("step,layer,expert,count\n0,block1.layer3,0,5\n"), std::runtime_error) << "two numbers";
}

TEST(ImportTable, OfTwoColumnsOfOneNameTheFirstIsShown) {
  const Imported table = read("step,loss,loss\n0,4,40\n1,3,30\n");
  EXPECT_EQ(table.runs.at(0)->value_at(Metric::ce_loss, kWholeRun, 1), 3.0f);
  EXPECT_EQ(table.remarks.at(0), "not shown: loss (column 3)");
}

TEST(ImportTable, TheGlobalStepCountsAsInEveryFormat) {
  const Imported table = read(",_step,_runtime,train/loss,train/global_step\n0,0,1.5,4,10\n1,1,2.5,3,20\n");
  EXPECT_EQ(table.runs.at(0)->steps(), (StepRange{10, 20}));
  EXPECT_EQ(table.remarks.at(0), "not shown: _runtime");
}

TEST(ImportTable, StepsThatBeginAgainInEveryEpochAreCountedOn) {
  EXPECT_EQ(read("epoch,step,loss\n0,0,9\n0,1,8\n1,0,7\n1,1,6\n").runs.at(0)->steps(), (StepRange{0, 3}));
  EXPECT_EQ(read("epoch,step,loss\n0,1,9\n0,2,8\n1,1,7\n").runs.at(0)->steps(), (StepRange{1, 3}));
  EXPECT_EQ(read("epoch,batch,loss\n0,10,9\n0,20,8\n1,10,7\n1,20,6\n").runs.at(0)->steps(), (StepRange{10, 40}));
  EXPECT_EQ(read("epoch,batch,loss\n0,64,9\n1,64,8\n2,64,7\n").runs.at(0)->steps(), (StepRange{0, 2}))
      << "the size of the batches";
  EXPECT_EQ(read("epoch,step,loss\n0,0,9\n0,1,8\n1,2,7\n0,1,8\n1,2,6\n").runs.at(0)->steps(), (StepRange{0, 2}))
      << "a restart";
}

TEST(ImportTable, DownloadsOfChartsAreRead) {
  const Imported wandb = read(
      "\"Step\",\"cloud-7 - train/loss\",\"cloud-7 - train/loss__MIN\",\"cloud-7 - train/loss__MAX\","
      "\"a - b - train/loss\",\"a - b - train/loss__MIN\",\"a - b - train/loss__MAX\",\"cloud-7 - _step\","
      "\"cloud-7 - _step__MIN\",\"cloud-7 - _step__MAX\"\n"
      "\"0\",\"4\",\"4\",\"4\",\"5\",\"5\",\"5\",\"0\",\"0\",\"0\"\n"
      "\"10\",\"3\",\"2\",\"4\",\"\",\"\",\"\",\"1\",\"1\",\"1\"\n");
  ASSERT_EQ(wandb.runs.size(), 2u);
  EXPECT_EQ(wandb.runs[0]->info().name, "cloud-7");
  EXPECT_EQ(wandb.runs[0]->value_at(Metric::ce_loss, kWholeRun, 10), 3.0f);
  EXPECT_EQ(wandb.runs[1]->info().name, "a - b");
  EXPECT_EQ(wandb.runs[1]->steps(), (StepRange{0, 0}));
  EXPECT_TRUE(wandb.remarks.empty());
  const Imported events = read("Wall time,Step,Value\n1700000000.5,0,4\n1700000001.5,10,3\n", {},
                               "run-train-tag-loss_metrics_global_avg_loss (1).csv");
  EXPECT_EQ(events.runs.at(0)->value_at(Metric::ce_loss, kWholeRun, 10), 3.0f);
  try {
    read("Wall time,Step,Value\n1,0,4\n");
    ADD_FAILURE();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("run-RUN-tag-train_loss.csv"), std::string::npos) << error.what();
  }
}

TEST(ImportTable, RowsOfOneValueAreRead) {
  for (const char* text : {"run,tag,step,value\na,loss,0,4\na,loss,1,3\na,grad_norm,0,1\na,grad_norm,1,2\n",
                           "Run,Run ID,metric,step,timestamp,value\na,x,loss,0,17,4\na,x,grad_norm,0,17,1\n"
                           "a,x,loss,1,18,3\na,x,grad_norm,1,18,2\n"}) {
    const Imported table = read(text);
    ASSERT_EQ(table.runs.size(), 1u) << text;
    EXPECT_EQ(table.runs[0]->info().name, "a");
    EXPECT_EQ(table.runs[0]->value_at(Metric::ce_loss, kWholeRun, 1), 3.0f);
    EXPECT_EQ(table.runs[0]->value_at(Metric::grad_norm, kWholeRun, 1), 2.0f);
  }
}

TEST(ImportTable, AHeaderWithAKnownNameIsEnough) {
  const auto path = std::filesystem::temp_directory_path() / "moescope_log.txt";
  std::ofstream(path) << "step,loss\n0,4\n1,3\n";
  EXPECT_EQ(file_kind(path.string()), FileKind::load_table);
  std::ofstream(path) << "step, by step\n0,4\n";
  EXPECT_EQ(file_kind(path.string()), FileKind::text);
  std::filesystem::remove(path);
}

TEST(ImportTable, ALargeModelMayHaveAColumnForEachExpert) {
  std::string header = "step", row;
  for (int layer = 3; layer < 61; ++layer)
    for (int expert = 0; expert < 256; ++expert) {
      header += ",layer_" + std::to_string(layer) + "_expert_" + std::to_string(expert);
      row += "," + std::to_string(expert);
    }
  ASSERT_GT(header.size(), std::size_t{256} << 10) << "more than is read at once";
  const Imported table = read(header + "\n0" + row + "\n1" + row + "\n");
  const History& history = *table.runs.at(0);
  EXPECT_EQ(history.info().moe_layers.size(), 58u);
  EXPECT_EQ(history.frame_at(1)->routers.back().tokens_per_expert.at(255), 255u);
}

TEST(ImportTable, LoadsInRowsOfOneValueAreRead) {
  std::string text = "step,metric,value\n";
  for (int step = 0; step < 2; ++step)
    for (int expert = 0; expert < 3; ++expert)
      text +=
          std::to_string(step) + ",layer_1/expert_" + std::to_string(expert) + "/load," + std::to_string(expert) + "\n";
  const Imported table = read(text);
  EXPECT_EQ(table.bad.count(), 0) << table.bad.text();
  EXPECT_EQ(table.runs.at(0)->frame_at(1)->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{0, 1, 2}));
}

TEST(ImportTable, AFillingOfEmptySlotsIsNoExpert) {
  std::string rows = "step,layer,expert\n";
  for (const int expert : {0, 1, 2, 3, 0, 255, 255}) rows += "0,1," + std::to_string(expert) + "\n";
  try {
    read(rows);
    ADD_FAILURE();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("has expert 255, and all others are 3 at most"), std::string::npos);
  }
  EXPECT_EQ(read(rows + "0,1,200\n").runs.at(0)->info().n_experts, 256);
}

}  // namespace
}  // namespace moescope
