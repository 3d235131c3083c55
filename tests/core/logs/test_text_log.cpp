// Texts that programs print, and trainer_state.json: both are recognised by their content and read.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "core/files/text/json_line.h"
#include "core/logs/file_kind.h"
#include "core/logs/follower.h"
#include "core/logs/lines/import_jsonl.h"
#include "core/logs/lines/text_log.h"
#include "core/logs/open_runs.h"
#include "core/logs/runs_in_folder.h"
#include "core/recording/marks.h"
#include "tests/support/processor_time.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

const std::string kTexts = std::string(MOESCOPE_TEST_DATA) + "/data/text_logs/";

// A file of these bytes, deleted with the test.
class TextFile {
 public:
  TextFile(const std::string& name, const std::string& bytes)
      : path_(fs::temp_directory_path() / ("moescope_text_" + std::to_string(::getpid()) + "_" + name)) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TextFile() { fs::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

struct ReadText : LogReader {
  explicit ReadText(const std::string& text) : LogReader("train.log") {
    LineSplitter lines;
    lines.add(text, *this);
    if (lines.holds_part()) lines.finish(*this);
    finish_step();
  }
};

ReadText read_text(const std::string& text) {
  return ReadText(text);
}

std::vector<float> values(const History& history, Metric metric, std::initializer_list<std::int64_t> steps) {
  std::vector<float> out;
  for (const std::int64_t step : steps) out.push_back(history.values(metric, kWholeRun, {step, step}).front());
  return out;
}

bool has_remark(const std::vector<std::string>& remarks, const std::string& part) {
  return std::ranges::any_of(remarks,
                             [&](const std::string& remark) { return remark.find(part) != std::string::npos; });
}

TEST(TextLog, StdoutOfTwoRanksOfTorchTitanIsRead) {
  const std::string path = kTexts + "torchtitan.log";
  EXPECT_EQ(file_kind(path), FileKind::text_log);
  const OpenedRuns opened = open_runs({path}, {}, 4);
  ASSERT_EQ(opened.histories.size(), 1u);
  const History& run = *opened.histories[0];
  EXPECT_EQ(run.steps(), (StepRange{1, 6}));
  const auto loss = values(run, Metric::ce_loss, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(loss[0], 8.1f);
  EXPECT_EQ(loss[5], 5.9f);
  EXPECT_TRUE(std::isnan(loss[4]) && !is_missing(loss[4]));
  EXPECT_EQ(values(run, Metric::tokens_per_s, {1, 6}), (std::vector<float>{72914, 72909}));
  EXPECT_EQ(values(run, Metric::grad_norm, {2}), (std::vector<float>{3.7f}));
  EXPECT_TRUE(opened.skipped.empty());
  EXPECT_TRUE(has_remark(opened.remarks, "read as printed lines: "));
  EXPECT_TRUE(has_remark(opened.remarks, "left out: 6 lines of other ranks"));
  EXPECT_FALSE(has_remark(opened.remarks, "dropped"));
  EXPECT_EQ(opened.accounts.at(0).program, "TorchTitan");
}

TEST(TextLog, ColouredTorchTitanWithValidationAndOlderNamesIsRead) {
  const auto reader = read_text(
      "[titan] 2025-01-01 00:00:00,000 - root - INFO - Starting job: step by step\n"
      "[titan] 2025-01-01 00:00:01,000 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss: 12.2683  "
      "\x1b[38;2;180;60;0mgrad_norm: "
      " 1.5  \x1b[36mmemory: 31.02GiB(39.2%)  \x1b[34mtps: 1,234,567  \x1b[35mmfu: 30.12%\x1b[39m\n"
      "[titan] 2025-01-01 00:00:02,000 - root - INFO - \x1b[33mvalidate step:  1  \x1b[32mloss:  9.5000  "
      "\x1b[36mmemory: "
      "31.02GiB(39.2%)  \x1b[34mtps: 55\x1b[39m\n");
  const auto run = reader.history();
  ASSERT_TRUE(run);
  EXPECT_EQ(values(*run, Metric::ce_loss, {1}), (std::vector<float>{12.2683f}));
  EXPECT_EQ(values(*run, Metric::val_loss, {1}), (std::vector<float>{9.5f}));
  EXPECT_EQ(values(*run, Metric::tokens_per_s, {1}), (std::vector<float>{1234567})) << "of the training";
  EXPECT_EQ(reader.bad().count(), 0);
  const auto older =
      read_text("2024-06-01 - INFO - step: 10  loss: 10.9  memory: 17.1GiB(18.0%)  wps: 1,111  mfu: 12.3%\n");
  ASSERT_TRUE(older.history());
  EXPECT_EQ(values(*older.history(), Metric::tokens_per_s, {10}), (std::vector<float>{1111}));
}

TEST(TextLog, StdoutOfMegatronIsRead) {
  const std::string path = kTexts + "megatron.log";
  EXPECT_EQ(file_kind(path), FileKind::text_log);
  const OpenedRuns opened = open_runs({path}, {}, 4);
  ASSERT_EQ(opened.histories.size(), 1u);
  const History& run = *opened.histories[0];
  EXPECT_EQ(run.steps(), (StepRange{100, 103}));
  EXPECT_EQ(values(run, Metric::ce_loss, {100, 101, 102, 103}), (std::vector<float>{9.21f, 8.87f, 8.55f, 8.31f}));
  EXPECT_EQ(values(run, Metric::aux_loss, {100}), (std::vector<float>{1.01f}));
  EXPECT_EQ(values(run, Metric::lr, {103}), (std::vector<float>{1.365e-5f}));
  EXPECT_EQ(opened.accounts.at(0).program, "Megatron-LM");
  // A name that is ignored on purpose has a row in the account, and no remark.
  EXPECT_FALSE(has_remark(opened.remarks, "consumed samples"));
  EXPECT_TRUE(std::ranges::any_of(opened.accounts.at(0).rows, [](const AccountRow& row) {
    return row.name.find("consumed") != std::string::npos && !row.reason.empty();
  }));
}

TEST(TextLog, ValidationAndNaNOfMegatronAreRead) {
  const auto reader = read_text(
      "training ...\n[after dataloaders are built] datetime: 2024-01-01 00:00:00 \n"
      "3:  iteration        1/     100 | consumed samples:          8 | elapsed time per iteration (ms): 12.0 | "
      "learning "
      "rate: 1.0E-05 | global batch size:     8 | lm loss: 9.1E+00 | loss scale: 1.0 | grad norm: 2.5 | number of "
      "skipped "
      "iterations:   0 | number of nan iterations:   0 |\n"
      "3: -----------------------------------------------\n"
      "3:  validation loss at iteration 1 on validation set | lm loss value: 8.5E+00 | lm loss PPL: 4.9E+03 | \n"
      "3:  validation loss at iteration 1 on test set | lm loss value: 7.5E+00 | lm loss PPL: 4.9E+03 | \n"
      "3:  iteration        2/     100 | consumed samples:         16 | elapsed time per iteration (ms): 12.0 | "
      "learning "
      "rate: 1.0E-05 | global batch size:     8 | loss scale: 1.0 | number of skipped iterations:   0 | number of nan "
      "iterations:   1 |\n");
  const auto run = reader.history();
  ASSERT_TRUE(run);
  EXPECT_EQ(values(*run, Metric::val_loss, {1}), (std::vector<float>{8.5f}));
  EXPECT_EQ(values(*run, Metric::grad_norm, {1}), (std::vector<float>{2.5f}));
  const float loss = values(*run, Metric::ce_loss, {2}).front();
  EXPECT_TRUE(std::isnan(loss) && !is_missing(loss)) << "it prints no loss that is not above 0";
}

TEST(TextLog, DictsOfTheTrainerAmongProgressBarsAreRead) {
  const std::string text =
      "Some weights were not initialized: {'classifier'}\n"
      "{'lr': 0.1, 'epochs': 3}\n"
      "\r  0%|          | 0/30 [00:00<?, ?it/s]\r 33%|###       | 10/30 [00:01<00:02]{'loss': 3.0, 'grad_norm': 1.5, "
      "'learning_rate': 1e-05, 'epoch': 0.1}\n"
      "{'loss': '2.0', 'grad_norm': nan, 'learning_rate': '9e-06', 'epoch': '0.2'}\r 66%|######    | 20/30\n"
      "{'eval_loss': 2.1, 'eval_runtime': 1.3, 'epoch': 0.2}\n"
      "{'loss': np.float64(1.5), 'grad_norm': tensor(1.3, device='cuda:0'), 'note': None, 'epoch': 0.3}\n"
      "{'train_runtime': 12.0, 'train_loss': 2.1667, 'epoch': 0.3}\n";
  EXPECT_TRUE(holds_printed_steps(text));
  const auto reader = read_text(text);
  const auto run = reader.history();
  ASSERT_TRUE(run);
  EXPECT_EQ(run->steps(), (StepRange{1, 3}));
  EXPECT_EQ(values(*run, Metric::ce_loss, {1, 2, 3}), (std::vector<float>{3.0f, 2.0f, 1.5f}));
  EXPECT_EQ(values(*run, Metric::val_loss, {2}), (std::vector<float>{2.1f}));
  EXPECT_EQ(values(*run, Metric::grad_norm, {3}), (std::vector<float>{1.3f}));
  EXPECT_TRUE(std::isnan(values(*run, Metric::grad_norm, {2}).front()));
  EXPECT_EQ(values(*run, Metric::lr, {2}), (std::vector<float>{9e-6f}));
  EXPECT_TRUE(has_remark(reader.remarks(), "have no step"));
  EXPECT_EQ(reader.bad().count(), 0) << reader.bad().text();
}

TEST(TextLog, ADictOfASmallerEpochGoesBack) {
  std::string text;
  for (const char* epoch : {"0.1", "0.2", "0.3", "0.4", "0.3", "0.4", "0.5"})
    text += std::string("{'loss': ") + epoch + ", 'epoch': " + epoch + "}\n";
  const auto reader = read_text(text);
  EXPECT_EQ(reader.history()->steps(), (StepRange{1, 5}));
  EXPECT_TRUE(has_remark(reader.remarks(), "continues from step 3"));
}

TEST(TextLog, FurtherProgramsAreRead) {
  struct Case {
    const char* line;
    float loss, lr;
  };
  for (const Case& line : std::vector<Case>{
           {"2025-08-01 10:00:00 | INFO | step 10 | epoch 0 | loss 2.3100 | grad_norm 1.25 | lr 1.00e-05 | mem 20.31 "
            "GiB | "
            "tps 1000.00(125.00/gpu) | num_label_tokens 1234",
            2.31f, 1e-5f},
           {"Training epoch 0, iteration 9/99 | lr: 1e-05 | global_batch_size: 512 | global_step: 10 | "
            "reduced_train_loss: "
            "2.31 | train_step_timing in s: 1.2",
            2.31f, 1e-5f},
           {"step   10/18865 | loss 2.310000 (+nanz)| norm 15.3 (+nanz)| lr 1.00e-05 | 262.1 ms | 55.0% bf16 MFU",
            2.31f, 1e-5f},
           {"step=10 loss=2.31 lr=1e-05", 2.31f, 1e-5f},
           {"iter 10: loss 2.31, lr 1e-05, time 100.2ms, mfu 12.1%", 2.31f, 1e-5f},
           {"[rank0]: {\"step\": 10, \"train/loss\": 2.31, \"lr\": 1e-05}", 2.31f, 1e-5f},
           {"(TaskRunner pid=12, ip=1.2.3.4) step:10 - global_seqlen/min:3 - train/loss:2.31 - train/lr:1e-05", 2.31f,
            1e-5f}}) {
    const auto reader = read_text(std::string("hello\n") + line.line + "\n");
    ASSERT_TRUE(reader.history()) << line.line;
    EXPECT_EQ(values(*reader.history(), Metric::ce_loss, {10}).front(), line.loss) << line.line;
    EXPECT_EQ(values(*reader.history(), Metric::lr, {10}).front(), line.lr) << line.line;
  }
}

TEST(TextLog, ATextWithoutStepsIsNoLog) {
  for (const char* text :
       {"Once upon a time, at step 3: he had a loss of words.\n", "step 1\nstep 2\n", "iteration 5 of the loop\n",
        "{'a': 1}\n{'lr': 0.1}\n", "12:00 - pipeline step 7 failed: exit code 3\n", "", "step 1: loss 2.0 once only\n"})
    EXPECT_FALSE(holds_printed_steps(text)) << text;
}

TEST(TextLog, StepsBehindALongPreambleAreFound) {
  std::string text;
  while (text.size() < (std::size_t{3} << 20)) text += "warning: this kernel is slow\n";
  text += "step: 1  loss: 2.0  memory: 1.0GiB(1%)  tps: 10\n";
  const TextFile file("late.log", text);
  EXPECT_EQ(file_kind(file.path()), FileKind::text_log);
  EXPECT_EQ(open_runs({file.path()}, {}, 4).histories.size(), 1u);
}

TEST(TextLog, AnUnknownTextIsRefusedWithTheOptionThatTrainsOnIt) {
  const TextFile file("unknown.log", "Once upon a time\n");
  EXPECT_EQ(file_kind(file.path()), FileKind::text);
  try {
    open_runs({file.path()}, {}, 4);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()),
              file.path() + ": is no log that MoEScope knows. To train on it as text: moescope --data " + file.path());
  }
}

TEST(TextLog, ATrainerStateWithNaNIsRead) {
  const std::string path = kTexts + "trainer_state.json";
  EXPECT_EQ(file_kind(path), FileKind::trainer_state);
  const OpenedRuns opened = open_runs({path}, {}, 4);
  ASSERT_EQ(opened.histories.size(), 1u);
  const History& run = *opened.histories[0];
  EXPECT_EQ(values(run, Metric::ce_loss, {10, 20, 30}), (std::vector<float>{3.0f, 2.0f, 1.5f}));
  EXPECT_EQ(values(run, Metric::val_loss, {20}), (std::vector<float>{2.1f}));
  EXPECT_EQ(values(run, Metric::grad_norm, {10, 30}), (std::vector<float>{1.5f, 1.5f}));
  const float norm = values(run, Metric::grad_norm, {20}).front();
  EXPECT_TRUE(std::isnan(norm) && !is_missing(norm));
  const TextFile list("history.json", R"([{"loss": 3.0, "step": 1}, {"loss": 2.0, "step": 2}])");
  EXPECT_EQ(file_kind(list.path()), FileKind::trainer_state);
  EXPECT_EQ(open_runs({list.path()}, {}, 4).histories[0]->steps(), (StepRange{1, 2}));
  const TextFile cut("trainer_state.json", R"({"log_history": [{"loss": 3.0, "step": 1}, {"lo)");
  EXPECT_THROW(open_runs({cut.path()}, {}, 4), std::runtime_error);
}

TEST(TextLog, TheTrainerLogOfLlamaFactoryIsRead) {
  const TextFile file(
      "trainer_log",
      R"({"current_steps": 5, "total_steps": 10, "loss": 1.25, "lr": 1e-05, "epoch": 0.5, "percentage": 50.0, "elapsed_time": "0:00:10"}
{"current_steps": 5, "total_steps": 10, "eval_loss": 1.5, "epoch": 0.5, "percentage": 50.0}
{"current_steps": 10, "total_steps": 10, "loss": 1.0, "lr": 0.0, "epoch": 1.0, "percentage": 100.0}
{"current_steps": 10, "total_steps": 10, "epoch": 1.0, "percentage": 100.0, "elapsed_time": "0:00:20"}
)");
  EXPECT_EQ(file_kind(file.path()), FileKind::training_log);
  const OpenedRuns opened = open_runs({file.path()}, {}, 4);
  EXPECT_EQ(values(*opened.histories[0], Metric::ce_loss, {5, 10}), (std::vector<float>{1.25f, 1.0f}));
  EXPECT_EQ(values(*opened.histories[0], Metric::val_loss, {5}), (std::vector<float>{1.5f}));
  EXPECT_EQ(values(*opened.histories[0], Metric::lr, {5, 10}), (std::vector<float>{1e-5f, 0}));
}

TEST(TextLog, AGrowingStdoutIsFollowed) {
  const TextFile file("growing.log", "starting\n");
  const auto follower = std::make_unique<Follower>(file.path(), 0, 4);
  std::ofstream(file.path(), std::ios::app) << "step: 1  loss: 2.0  memory: 1.0GiB(1%)  tps: 10\nstep: 2  los";
  const auto newest = [&] {
    const auto histories = follower->histories();
    return histories.empty() ? -1 : histories[0]->steps().last;
  };
  for (int i = 0; i < 300 && newest() < 1; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(newest(), 1);
  std::ofstream(file.path(), std::ios::app) << "s: 1.5  memory: 1.0GiB(1%)  tps: 10\n";
  for (int i = 0; i < 300 && newest() < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(newest(), 2);
}

TEST(TextLog, FoldersOfLogsOfferThem) {
  const fs::path folder = fs::temp_directory_path() / "moescope_text_folder";
  fs::create_directories(folder / "checkpoint-30");
  fs::copy_file(kTexts + "torchtitan.log", folder / "train.log", fs::copy_options::overwrite_existing);
  fs::copy_file(kTexts + "trainer_state.json", folder / "checkpoint-30" / "trainer_state.json",
                fs::copy_options::overwrite_existing);
  std::ofstream(folder / "other.log") << "Once upon a time\n";
  EXPECT_EQ(runs_in_folder(folder.string()).size(), 2u);
  fs::remove_all(folder);
}

// The time for a line is proportional to its length, whatever it contains.
TEST(TextLog, HostileLinesTakeNoTime) {
  const double begin = processor_seconds();
  for (const char* piece : {"{", "{'loss':", "step", "step:1 ", "step 1 |", ":", "=", "[", "(", "\x1b[", "{'a':[",
                            "a=1 ", "\r", "step:1 loss:1,", "'", "1,"}) {
    std::string line = "step: 1 ";
    while (line.size() < (std::size_t{256} << 10)) line += piece;
    const auto reader = read_text(line + "\n" + line.substr(0, 60000) + "\n");
    EXPECT_LE(reader.bad().count(), 2);
  }
  EXPECT_LT(processor_seconds() - begin, 20);
}

TEST(PythonDict, ValuesOfEveryKindAreRead) {
  const auto dict =
      python_dict(R"({'a': 1, "b": (1, [2.5, -inf]), 'c': {'d': True, 'e': None}, 'f': 'x"\'', 'g': '1e3'} rest)");
  ASSERT_TRUE(dict);
  EXPECT_EQ(dict->json, R"({"a":1,"b":[1,[2.5,"-Infinity"]],"c":{"d":true,"e":null},"f":"x\"'","g":"1e3"})");
  EXPECT_EQ(python_dict("{1: 2, 30: [3]}")->json, R"({"1":2,"30":[3]})");
  for (const char* text : {"{", "{'a'", "{'a': }", "{a: 1}", "{'a': 1", "[1]", ""})
    EXPECT_FALSE(python_dict(text)) << text;
  EXPECT_FALSE(python_dict("{'a': " + std::string(100000, '[')));
}

TEST(TextLog, ALineOfSeveralObjectsIsOneBadLine) {
  LogReader reader("here.log");
  reader.read_line(R"({"step":0,"loss":4}{"step":-1,"loss":3}{"step":-2,"loss":2})");
  reader.finish_step();
  EXPECT_EQ(reader.bad().count(), 1);
  EXPECT_EQ(reader.history()->steps(), (StepRange{0, 0}));
}

TEST(TextLog, AStepMayHaveItsDigitsGrouped) {
  LogReader reader("here.log");
  for (const char* line : {"step 1,000 | loss 3.0", "step 1,010/2,000 | loss 2.0", "step: 1,234,567, loss: 1.0"})
    reader.read_line(line);
  reader.finish_step();
  EXPECT_EQ(reader.history()->steps(), (StepRange{1000, 1234567}));
  EXPECT_EQ(reader.history()->value_at(Metric::ce_loss, kWholeRun, 1010), 2.0f);
}

TEST(TextLog, CommasAreDroppedBetweenGroupsOfThreeDigitsOnly) {
  struct Case {
    const char* printed;
    std::optional<double> value;  // nullopt: the line is reported
  };
  for (const Case& spelling : std::vector<Case>{{"3.5", 3.5},
                                                {"1,234.5", 1234.5},
                                                {"1,234,567", 1234567.0},
                                                {"-1,234,567.25", -1234567.25},
                                                {"3,5", {}},
                                                {"0,350", {}},
                                                {"2,345", {}},
                                                {"12,34", {}},
                                                {"1,2345", {}},
                                                {"1,23,456", {}},
                                                {"1,234,56", {}},
                                                {"1234,567,890", {}},
                                                {"1.234,5", {}},
                                                {"1,234.567,8", {}},
                                                {"1,3e-05", {}},
                                                {"1,000e-05", {}},
                                                {"3.5.1", {}},
                                                {"3,,5", {}}}) {
    const std::string number = spelling.printed;
    for (const std::string& line :
         {"step: 7  loss: " + number + "  grad_norm: 2.5", "step 7 | loss " + number + " | grad_norm 2.5",
          "step=7, loss=" + number + ", grad_norm=2.5", "{'step': 7, 'loss': '" + number + "', 'grad_norm': 2.5}",
          R"({"log": "step: 7 loss: )" + number + R"( grad_norm: 2.5"})"}) {
      const auto reader = read_text("step: 6  loss: 1.0\n" + line + "\n");
      ASSERT_TRUE(reader.history()) << line;
      EXPECT_EQ(values(*reader.history(), Metric::grad_norm, {7}).front(), 2.5f) << line;
      const float loss = values(*reader.history(), Metric::ce_loss, {7}).front();
      if (spelling.value) {
        EXPECT_EQ(loss, static_cast<float>(*spelling.value)) << line;
        EXPECT_EQ(reader.bad().count(), 0) << line << reader.bad().text();
      } else {
        EXPECT_TRUE(is_missing(loss)) << line << ": " << loss;
        ASSERT_EQ(reader.bad().count(), 1) << line;
        EXPECT_EQ(reader.bad().in_part(), 1) << line;
        EXPECT_NE(reader.bad().first()[0].reason.find('"' + number + "\" is not a number"), std::string::npos)
            << reader.bad().text();
      }
    }
  }
}

TEST(TextLog, NumbersOfTokensAndStepsMayBeGrouped) {
  const auto reader = read_text("step: 1,000  loss: 2.5  tps: 72,914\nstep: 1,5  loss: 2.0\n");
  EXPECT_EQ(values(*reader.history(), Metric::tokens_per_s, {1000}), (std::vector<float>{72914.0f}));
  EXPECT_EQ(reader.history()->steps(), (StepRange{1000, 1000}));
  ASSERT_EQ(reader.bad().count(), 1) << "step 1,5 is none";
  EXPECT_EQ(reader.bad().in_part(), 0);
}

TEST(TextLog, TheFirstOfSeveralRatesIsRead) {
  const auto reader = read_text("step=10, lr=[0.5,0.25], loss=2.5\nstep=11, lr=[0,5], loss=2.25\n");
  EXPECT_EQ(values(*reader.history(), Metric::lr, {10}), (std::vector<float>{0.5f}));
  EXPECT_TRUE(is_missing(values(*reader.history(), Metric::lr, {11}).front())) << "0.5, or 0 and 5";
  EXPECT_EQ(reader.bad().count(), 1) << reader.bad().text();
}

TEST(TextLog, ADictWithoutStepWhoseOnlyNumberIsNoneIsReported) {
  const auto reader = read_text("{'loss': '3.5', 'epoch': 0.1}\n{'loss': '3,5', 'epoch': 0.2}\n");
  EXPECT_EQ(reader.history()->steps(), (StepRange{1, 1}));
  EXPECT_EQ(reader.bad().count(), 1) << reader.bad().text();
}

TEST(TextLog, SeveralObjectsOfALineAreSeveralSteps) {
  LogReader reader("here.log");
  reader.read_line(R"({"step":0,"loss":4}{"step":1,"loss":3} {"step":2,"loss":2},)");
  reader.read_line(R"(INFO train: {"step":3,"tokens_per_expert":[[1,2]]})");
  reader.finish_step();
  EXPECT_EQ(reader.history()->steps(), (StepRange{0, 3}));
  EXPECT_EQ(reader.history()->value_at(Metric::ce_loss, kWholeRun, 1), 3.0f);
  EXPECT_EQ(reader.history()->frame_at(3)->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{1, 2}));
  ASSERT_EQ(reader.remarks().size(), 1u);
  EXPECT_EQ(reader.remarks()[0], "read as printed lines: 2 of 2 have figures of a step")
      << "lines with a step of their own are not those of the Trainer";
}

TEST(TextLog, AFirstLineWithALossAndNoStepIsNoSettings) {
  auto reader = read_text("{\"loss\": 9, \"epoch\": 0}\n{\"loss\": 8, \"epoch\": 1}\n");
  ASSERT_NE(reader.history(), nullptr);
  EXPECT_EQ(values(*reader.history(), Metric::ce_loss, {1, 2}), (std::vector<float>{9, 8}));
  EXPECT_EQ(reader.account().program, "Hugging Face Trainer");
  auto tokens = read_text("{\"tokens_seen\": 0, \"loss\": 9}\n{\"tokens_seen\": 4000, \"loss\": 8}\n");
  EXPECT_EQ(values(*tokens.history(), Metric::ce_loss, {1, 2}), (std::vector<float>{9, 8}));
  EXPECT_NE(tokens.account().program, "Hugging Face Trainer");
  auto settings = read_text("{\"loss\": \"cross_entropy\", \"lr\": 0.1}\n{\"step\": 3, \"loss\": 8}\n");
  EXPECT_EQ(values(*settings.history(), Metric::ce_loss, {3}), std::vector<float>{8});
}

TEST(TextLog, TheStepOfMsSwiftIsRead) {
  auto reader = read_text(
      "{'loss': 8.9, 'learning_rate': 1e-05, 'epoch': 0.1, 'global_step/max_steps': '5/100'}\n"
      "{'loss': 8.8, 'learning_rate': 1e-05, 'epoch': 0.2, 'global_step/max_steps': '10/100'}\n");
  EXPECT_EQ(values(*reader.history(), Metric::ce_loss, {5, 10}), (std::vector<float>{8.9f, 8.8f}));
  auto json = read_text("{\"loss\": 8.9, \"global_step/max_steps\": \"5/100\"}\n");
  EXPECT_EQ(values(*json.history(), Metric::ce_loss, {5}), std::vector<float>{8.9f});
}

TEST(TextLog, LinesInTheJsonOfContainersAreRead) {
  for (const char* name : {"log", "message", "textPayload"}) {
    std::string text;
    for (int step = 1; step < 4; ++step)
      text += "{\"" + std::string(name) + "\":\"step: " + std::to_string(step) + "  loss: " + std::to_string(9 - step) +
              "  memory: 1.0GiB(1%)  tps: 7,292\\n\",\"stream\":\"stdout\"}\n";
    auto reader = read_text(text);
    ASSERT_NE(reader.history(), nullptr) << name;
    EXPECT_EQ(values(*reader.history(), Metric::ce_loss, {1, 2, 3}), (std::vector<float>{8, 7, 6})) << name;
    EXPECT_EQ(values(*reader.history(), Metric::tokens_per_s, {1}), std::vector<float>{7292}) << name;
    EXPECT_EQ(reader.account().program, "TorchTitan") << name;
  }
}

TEST(TextLog, ARankInBracketsNeedsNoColon) {
  auto reader = read_text(
      "[rank 0] step: 1 loss: 9\n[rank 1] step: 1 loss: 5\n[rank 0] step: 2 loss: 8\n[rank 1] step: 2 loss: 4\n");
  EXPECT_EQ(values(*reader.history(), Metric::ce_loss, {1, 2}), (std::vector<float>{9, 8}));
  EXPECT_TRUE(has_remark(reader.remarks(), "left out: 2 lines of other ranks"));
}

TEST(TextLog, StdoutOfDeepSpeedIsRead) {
  auto reader = read_text(
      "[2026-07-17 12:00:00,123] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[0.5, 0.25], "
      "mom=[(0.9, 0.999), (0.9, 0.999)]\n"
      "[2026-07-17 12:00:00,123] [INFO] [timer.py:199:stop] epoch=0/micro_step=40/global_step=10, "
      "RunningAvgSamplesPerSec=12.5, CurrSamplesPerSec=12.4\n"
      "steps: 10 loss: 8.5000 iter time (s): 0.300 samples/sec: 12.400\n"
      "Total steps: 5000 lr: 0.5\n"
      "steps: 20 loss: 8.2500 iter time (s): 0.300 samples/sec: 12.400\n");
  EXPECT_EQ(reader.history()->steps(), (StepRange{10, 20}));
  EXPECT_EQ(values(*reader.history(), Metric::ce_loss, {10, 20}), (std::vector<float>{8.5f, 8.25f}));
  EXPECT_EQ(values(*reader.history(), Metric::lr, {10}), std::vector<float>{0.5f});
}

TEST(TextLog, AStepMayHaveALineForEachOfItsValues) {
  const std::string text =
      "2026-07-17 12:00:00.123\tnode1:0\tolmo_core.train:48\tINFO\t[step=1/739328,epoch=1,eta=1 day]\n"
      "    optim/total grad norm=0.25\n    train/CE loss=11.5\n    train/load balancing loss=1.25\n"
      "    throughput/device/TPS=9,999\n"
      "a line of something else\n    train/CE loss=99\n"
      "2026-07-17 12:00:00.123\tnode1:0\tolmo_core.train:48\tINFO\t[step=2/739328,epoch=1]\n    train/CE loss=11\n";
  auto reader = read_text(text);
  ASSERT_NE(reader.history(), nullptr);
  EXPECT_EQ(values(*reader.history(), Metric::ce_loss, {1, 2}), (std::vector<float>{11.5f, 11}));
  EXPECT_EQ(values(*reader.history(), Metric::grad_norm, {1}), std::vector<float>{0.25f});
  EXPECT_EQ(values(*reader.history(), Metric::aux_loss, {1}), std::vector<float>{1.25f});
  EXPECT_TRUE(holds_printed_steps(text));
}

TEST(TextLog, ObjectsOnSeveralLinesAreRead) {
  auto reader = read_text("{\n  \"step\": 1,\n  \"loss\": 9\n}\n{\n  \"step\": 2,\n  \"loss\": 8\n},\n");
  ASSERT_NE(reader.history(), nullptr);
  EXPECT_EQ(values(*reader.history(), Metric::ce_loss, {1, 2}), (std::vector<float>{9, 8}));
  auto cut = read_text("{\n  \"step\": 1,\n{\"step\": 2, \"loss\": 8}\n");
  EXPECT_EQ(values(*cut.history(), Metric::ce_loss, {2}), std::vector<float>{8}) << "a bracket that is not closed";
  EXPECT_EQ(cut.bad().count(), 1);
}

TEST(TextLog, ATrainerStateWithALateHistoryIsRead) {
  const TextFile file("state.json", "{\n  \"callbacks\": \"" + std::string(20000, 'x') +
                                        "\",\n  \"log_history\": [{\"step\": 10, \"loss\": 3.0}]\n}\n");
  EXPECT_EQ(file_kind(file.path()), FileKind::trainer_state);
}

TEST(TextLog, TheWordBeforeTheStepSaysWhatWasMeasured) {
  auto reader = read_text(
      "Train step: 1 loss: 9\nTest step: 1 loss: 3\nVal step: 1 loss: 8.5\n[/home/test/a.py:3] step: 2 loss: 8\n");
  EXPECT_EQ(values(*reader.history(), Metric::ce_loss, {1, 2}), (std::vector<float>{9, 8}));
  EXPECT_EQ(values(*reader.history(), Metric::val_loss, {1}), std::vector<float>{8.5f});
}

TEST(TextLog, AStepMayPrecedeADictAndUnitsMayPrecedeNames) {
  auto reader = read_text(
      "(TrainActor pid=12) step 10: {'train/loss': 8.5, 'train/grad_norm': 1.0}\n"
      "(TrainActor pid=12) step 20: {'train/loss': 8.25, 'train/grad_norm': 1.0}\n");
  EXPECT_EQ(values(*reader.history(), Metric::ce_loss, {10, 20}), (std::vector<float>{8.5f, 8.25f}));
  EXPECT_FALSE(has_remark(reader.remarks(), "numbered"));
  auto units = read_text(
      "Step 1/100 lr: 0.5 total_loss: 9.5, reduced_llm_loss: 9.25, reduced_balancing_loss: 0.25 "
      "max_memory: 10.00 GB grad_norm: 1.5 tgs: 100.1\n");
  EXPECT_EQ(values(*units.history(), Metric::ce_loss, {1}), std::vector<float>{9.25f});
  EXPECT_EQ(values(*units.history(), Metric::aux_loss, {1}), std::vector<float>{0.25f});
  EXPECT_EQ(values(*units.history(), Metric::grad_norm, {1}), std::vector<float>{1.5f});
}

TEST(SavedCheckpoints, AreTheLinesOfTheirPrograms) {
  const auto step_of = [](const char* line) {
    const auto saved = saved_checkpoint(line);
    return saved ? saved->step.value_or(-1) : -2;
  };
  EXPECT_EQ(step_of("saving checkpoint at iteration     500 to /kept in torch_dist format"), 500);
  EXPECT_EQ(step_of("  successfully saved checkpoint from iteration     500 to /kept [ t 1/1, p 1/1 ]"), 500);
  EXPECT_EQ(step_of("[rank0]:[titan] 2026-07-17 12:05:20 - root - INFO - Saving the checkpoint (or staging if async is "
                    "enabled)."),
            -1);
  EXPECT_EQ(step_of("Saving model checkpoint to out/my-checkpoint-kept/checkpoint-1500"), 1500);
  EXPECT_EQ(step_of("Saving model checkpoint to out/best"), -1);
  for (const char* other : {"loading checkpoint from /kept at iteration 500", "not saving checkpoint at iteration 500",
                            "saving checkpoint at iteration of the moon", "a checkpoint of checkpoint-7", "",
                            "saving checkpoint at iteration 99999999999999999999"})
    EXPECT_EQ(step_of(other), -2) << other;
}

TEST(SavedCheckpoints, AreEventsOfTheRun) {
  const auto reader = read_text(
      "step: 10 loss: 3.5\nsaving checkpoint at iteration 10 to /kept\nsuccessfully saved checkpoint from iteration 10 "
      "to /kept\nstep: 20 loss: 3\nSaving the checkpoint (or staging if async is enabled).\nstep: 30 loss: 2\n");
  std::vector<Marker> checkpoints;
  for (const Marker& marker : reader.history()->markers())
    if (marker.text.starts_with(kCheckpointSaved)) checkpoints.push_back(marker);
  ASSERT_EQ(checkpoints.size(), 2u) << "two lines of one checkpoint are one event";
  EXPECT_EQ(checkpoints[0].step, 10);
  EXPECT_EQ(checkpoints[0].text, "checkpoint saved: iteration 10");
  EXPECT_EQ(checkpoints[1].step, 20);
  EXPECT_EQ(checkpoint_before(*reader.history(), 20)->step, 10);
  EXPECT_EQ(checkpoint_before(*reader.history(), 21)->step, 20);
  EXPECT_FALSE(checkpoint_before(*reader.history(), 10));
}

}  // namespace
}  // namespace moescope
