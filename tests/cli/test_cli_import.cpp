// Runs moescope-cli import as a process.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "core/logs/lines/import_jsonl.h"
#include "core/recording/recording.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

const std::string kSamples = MOESCOPE_TEST_DATA "/../assets/samples/";

class CliImport : public testing::Test {
 protected:
  CliImport() : folder_(fs::temp_directory_path() / ("moescope_import_" + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~CliImport() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  int import(const std::string& arguments) const {
    const int status =
        std::system((MOESCOPE_CLI " import " + arguments + " >" + path("out") + " 2>" + path("err")).c_str());
    return WEXITSTATUS(status);
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  fs::path folder_;
};

TEST_F(CliImport, TwoLogsBecomeOneRecording) {
  ASSERT_EQ(import(kSamples + "unbalanced_bf16.jsonl " + kSamples + "domain_shift.jsonl -o " + path("r.moescope")), 0)
      << read("err");
  EXPECT_NE(read("out").find("B domain_shift: 71 steps from 0 to 1400, 8 MoE layers of 64 experts"), std::string::npos)
      << read("out");
  const RecordingReader recording(path("r.moescope"));
  ASSERT_EQ(recording.runs().size(), 2u);
  const auto log = import_jsonl(kSamples + "domain_shift.jsonl").runs.at(0);
  const auto read_back = recording.load(1);
  EXPECT_EQ(read_back->steps(), log->steps());
  for (const std::int64_t step : {std::int64_t{0}, std::int64_t{700}, log->steps().last}) {
    const auto a = log->frame_at(step), b = read_back->frame_at(step);
    for (std::size_t layer = 0; layer < a->routers.size(); ++layer) {
      EXPECT_EQ(a->routers[layer].tokens_per_expert, b->routers[layer].tokens_per_expert);
      EXPECT_EQ(a->routers[layer].expert_bias, b->routers[layer].expert_bias);
      EXPECT_EQ(a->routers[layer].max_vio_window, b->routers[layer].max_vio_window);
    }
  }
  ASSERT_TRUE(read_back->specialisation_frame_at(700));
  EXPECT_EQ(read_back->specialisation_frame_at(700)->specialisation[0].domain_DE,
            log->specialisation_frame_at(700)->specialisation[0].domain_DE);
  EXPECT_EQ(import(kSamples + "domain_shift.jsonl -o " + path("r.moescope")), 2);
  EXPECT_NE(read("err").find("exists; choose another name, or give --overwrite"), std::string::npos) << read("err");
  EXPECT_EQ(import(path("r.moescope") + " -o " + path("again.moescope")), 2);
  EXPECT_NE(read("err").find("is a recording already"), std::string::npos) << read("err");
}

TEST_F(CliImport, StandardInputBecomesARecording) {
  ASSERT_EQ(import("- -o " + path("r.moescope") + " <" + kSamples + "domain_shift.jsonl"), 0) << read("err");
  const auto log = import_jsonl(kSamples + "domain_shift.jsonl").runs.at(0);
  EXPECT_EQ(RecordingReader(path("r.moescope")).load(0)->steps(), log->steps());
  EXPECT_EQ(RecordingReader(path("r.moescope")).runs().at(0).source, "standard input");
  EXPECT_EQ(import("- - -o " + path("two.moescope") + " <" + kSamples + "domain_shift.jsonl"), 2);
  EXPECT_NE(read("err").find("named twice"), std::string::npos) << read("err");
}

TEST_F(CliImport, MessagesNameStandardInput) {
  std::ofstream(path("bad.jsonl")) << "{\"step\":0,\"loss\":1}\nnot json\n";
  ASSERT_EQ(import("- -o " + path("r.moescope") + " <" + path("bad.jsonl")), 0) << read("err");
  EXPECT_NE(read("err").find("standard input: 1 line could not be read"), std::string::npos) << read("err");
  std::ofstream(path("text")) << "no log\n";
  EXPECT_EQ(import("- -o " + path("n.moescope") + " <" + path("text")), 2);
  EXPECT_NE(read("err").find("error: standard input: is no log that MoEScope knows\n"), std::string::npos)
      << read("err");
}

TEST_F(CliImport, BadLinesAreToldWithTheirNumbers) {
  std::ofstream(path("bad.jsonl")) << "{\"step\":0,\"loss\":1,\"tokens_per_expert\":[[1,2]]}\nnot json\n"
                                   << "{\"step\":1,\"tokens_per_expert\":[[1,2,3]]}\n{\"step\":2,\"loss\":1}\n";
  ASSERT_EQ(import(path("bad.jsonl") + " -o " + path("r.moescope") + " --bad-lines " + path("list")), 0);
  EXPECT_NE(read("err").find("2 lines could not be read"), std::string::npos) << read("err");
  EXPECT_NE(read("list").find("line 2: not JSON, or cut off\nline 3: tokens_per_expert: 3 experts, not 2\n"),
            std::string::npos)
      << read("list");
  const auto markers = RecordingReader(path("r.moescope")).load(0)->markers();
  ASSERT_EQ(markers.size(), 1u) << "the recording keeps that some are missing";
  EXPECT_NE(markers[0].text.find("2 lines could not be read"), std::string::npos);
  EXPECT_EQ(import(path("nothing.jsonl") + " -o " + path("n.moescope")), 2);
  EXPECT_NE(read("err").find("No such file"), std::string::npos) << read("err");
}

TEST_F(CliImport, LinesOfWhichALossWasReadAreNotCountedAsUnreadable) {
  std::ofstream(path("part.jsonl")) << "{\"step\":0,\"loss\":1,\"tokens_per_expert\":[[1,2]]}\n"
                                    << "{\"step\":1,\"loss\":0.5,\"tokens_per_expert\":[[1,2,3]]}\n"
                                    << "{\"step\":2,\"loss\":\"0,25\",\"grad_norm\":1}\nnot json\n";
  ASSERT_EQ(import(path("part.jsonl") + " -o " + path("r.moescope") + " --bad-lines " + path("list")), 0);
  EXPECT_NE(read("err").find("1 line could not be read, the first: line 4: not JSON, or cut off; 2 lines could be read "
                             "in part only, the first: line 2: tokens_per_expert: 3 experts, not 2"),
            std::string::npos)
      << read("err");
  EXPECT_NE(read("list").find("line 2: tokens_per_expert: 3 experts, not 2 (the other values of the line were read)\n"),
            std::string::npos)
      << read("list");
  const auto run = RecordingReader(path("r.moescope")).load(0);
  EXPECT_EQ(run->value_at(Metric::ce_loss, kWholeRun, 1), 0.5f);
  EXPECT_EQ(run->value_at(Metric::grad_norm, kWholeRun, 2), 1.0f);
}

TEST_F(CliImport, WhatAKilledOneLeftIsRemovedByTheNext) {
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ::waitpid(gone, nullptr, 0);
  const std::string leftover = path("r.moescope.part-" + std::to_string(gone));
  const std::string part_of_another = path("r.moescope.part-" + std::to_string(::getpid()));
  for (const std::string& file : {leftover, leftover + "-journal", part_of_another}) std::ofstream(file) << "half";
  std::ofstream(path("log.jsonl")) << "{\"step\":0,\"loss\":1,\"tokens_per_expert\":[[1,2]]}\n";
  ASSERT_EQ(import(path("log.jsonl") + " -o " + path("r.moescope")), 0) << read("err");
  EXPECT_FALSE(fs::exists(leftover));
  EXPECT_FALSE(fs::exists(leftover + "-journal"));
  EXPECT_TRUE(fs::exists(part_of_another)) << "is being written";
}

// A single line with step 0 drops all earlier steps.
TEST_F(CliImport, ALogThatGoesBackSaysWhatWasDropped) {
  std::ofstream file(path("log.csv"));
  file << "step,layer,expert,count\n";
  for (int step = 0; step < 1000; ++step) file << step << ",0,0,5\n" << step << ",0,1,5\n";
  file << "0,0,0,5\n" << std::flush;
  ASSERT_EQ(import(path("log.csv") + " -o " + path("r.moescope")), 0) << read("err");
  EXPECT_NE(read("err").find("log.csv: continues from step 0: dropped steps 0 to 999 of an earlier attempt "
                             "(1000 logged steps)"),
            std::string::npos)
      << read("err");
}

// A recording can store the highest layer number that import accepts.
TEST_F(CliImport, TheHighestLayerOfALogIsReadBack) {
  const auto imports = [&](int layer) {
    std::ofstream(path("log.jsonl")) << "{\"step\":0,\"layer\":" << layer << ",\"tokens_per_expert\":[1,2]}\n";
    return import(path("log.jsonl") + " --overwrite -o " + path("r.moescope"));
  };
  ASSERT_EQ(imports(4095), 0) << read("err");
  EXPECT_EQ(RecordingReader(path("r.moescope")).load(0)->info().moe_layers, std::vector<int>{4095});
  EXPECT_EQ(imports(4096), 2);
  EXPECT_NE(read("err").find("line 1: layer"), std::string::npos) << read("err");
}

TEST_F(CliImport, InterruptedItLeavesNothing) {
  {
    std::ofstream big(path("big.jsonl"));
    std::string load;
    for (int e = 0; e < 2000; ++e) load += (e ? ",1" : "1");
    for (int step = 0; step < 20000; ++step)
      big << "{\"step\":" << step << ",\"tokens_per_expert\":[[" << load << "]]}\n";
  }
  const std::string file = path("big.jsonl"), out = path("big.moescope");
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::execl(MOESCOPE_CLI, MOESCOPE_CLI, "import", file.c_str(), "-o", out.c_str(), nullptr);
    ::_exit(127);
  }
  const std::string part = out + ".part-" + std::to_string(pid);
  for (int i = 0; i < 3000 && !fs::exists(part); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ::kill(pid, SIGINT);
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 130);
  int leftovers = 0;
  for (const auto& entry : fs::directory_iterator(folder_))
    leftovers += entry.path().filename().string().starts_with("big.moescope");
  EXPECT_EQ(leftovers, 0);
}

}  // namespace
}  // namespace moescope
