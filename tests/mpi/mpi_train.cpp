// Trains with `moescope-cli train --ep R` under mpirun and compares the result with that of one process.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "core/cluster/ranks/volumes.h"
#include "core/files/tensors/safetensors.h"
#include "core/recording/recording.h"
#include "core/training/checkpoint_folder.h"
#include "tests/support/run_command.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string mpirun(int ranks) {
  return std::string(MOESCOPE_MPIRUN) + " -n " + std::to_string(ranks) + ' ' + MOESCOPE_CLI +
         " train --threads 1 --ep " + std::to_string(ranks) + ' ';
}
const std::string kAlone = std::string(MOESCOPE_CLI) + " train --threads 1 ";

class MpiTrain : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("moescope_mpi_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::vector<Json> lines(const std::string& name) const {
    std::ifstream file(path(name));
    std::vector<Json> result;
    for (std::string line; std::getline(file, line);) {
      Json json = Json::parse(line);
      if (json.contains("step")) result.push_back(std::move(json));  // not the line that describes the run
    }
    return result;
  }

  fs::path folder_;
};

// Returns the frame without measured times and without the values that depend on the number of ranks.
Json figures(Json frame) {
  for (const char* timed : {"wall_s", "tokens_per_s", "phase_ms", "wire"}) frame.erase(timed);
  for (Json& router : frame["routers"]) router.erase("volume");  // its ranks are those of the run
  // Each rank has the gradients of its own experts only (expert_weights.h).
  for (Json& layer : frame["specialisation"]) {
    layer.erase("gradient_norm");
    layer.erase("update_norm");
  }
  for (std::size_t i = frame.contains("texts") ? frame["texts"].size() : 0; i-- > 0;)
    if (frame["texts"][i]["kind"] == "batch") frame["texts"].erase(i);  // only texts of rank 0's sequences
  return frame;
}

void expect_the_same_weights(const std::string& a, const std::string& b) {
  const SafetensorsFile first(newest_checkpoint(a).front()), second(newest_checkpoint(b).front());
  ASSERT_EQ(first.tensors().size(), second.tensors().size());
  for (const TensorView& tensor : first.tensors())
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, second.at(tensor.name).bytes)) << tensor.name;
}

TEST_F(MpiTrain, IsOneProcessToTheBit) {
  const std::string what =
      "--preset nano --steps 12 --set router.aux_mode=batch --set router.aux_coeff=0.01 "
      "--set router.token_drop=probs --set router.capacity_factor=1.1 --set router.n_hash_layers=1 "
      "--set model.shared_expert_gate=true --set model.latent_dim=32 --set model.latent_norm=true ";
  ASSERT_EQ(run(kAlone + what + "--jsonl " + path("1.jsonl") + " --checkpoint " + path("1")).status, 0);
  const std::vector<Json> single = lines("1.jsonl");
  ASSERT_EQ(single.size(), 12u);
  for (const int ranks : {1, 2, 4}) {
    SCOPED_TRACE(ranks);
    const std::string name = "of" + std::to_string(ranks);
    const Ended ended = run(mpirun(ranks) + what + "--jsonl " + path(name + ".jsonl") + " --checkpoint " + path(name));
    ASSERT_EQ(ended.status, 0) << ended.output;
    const std::vector<Json> spread = lines(name + ".jsonl");
    ASSERT_EQ(spread.size(), single.size());
    for (std::size_t i = 0; i < single.size(); ++i) EXPECT_TRUE(figures(spread[i]) == figures(single[i])) << i;
    expect_the_same_weights(path("1"), path(name));
  }
}

TEST_F(MpiTrain, OverNodesIsTheSameToTheBit) {
  const std::string what =
      "--preset nano --steps 6 --set precision.payload=bf16 "
      "--set router.token_drop=position --set router.capacity_factor=1.1 --set model.latent_dim=24 ";
  ASSERT_EQ(run(kAlone + what + "--checkpoint " + path("1")).status, 0);
  const Ended ended = run(mpirun(4) + what + "--all-to-all hierarchical --ranks-per-node 2 --checkpoint " + path("4"));
  ASSERT_EQ(ended.status, 0) << ended.output;
  expect_the_same_weights(path("1"), path("4"));
}

// The bytes passed to MPI equal the counted volumes times the bytes of the payload, and the weights equal those of one
// process.
TEST_F(MpiTrain, BytesOnTheWireAreTheCountedOnes) {
  for (const char* payload : {"fp32", "bf16", "mxfp8"}) {
    SCOPED_TRACE(payload);
    const std::string what = std::string("--preset nano --steps 3 --set precision.payload=") + payload + ' ';
    const std::string name = payload;
    const Ended ended =
        run(mpirun(4) + what + "--ranks-per-node 2 --out " + path(name + ".moescope") + " --checkpoint " + path(name));
    ASSERT_EQ(ended.status, 0) << ended.output;
    ASSERT_EQ(run(kAlone + what + "--checkpoint " + path(name + "1")).status, 0);
    expect_the_same_weights(path(name), path(name + "1"));
    const RecordingReader reader(path(name + ".moescope"));
    const auto history = reader.load(0);
    const auto frame = history->frame_at(2);
    ASSERT_TRUE(frame);
    ASSERT_EQ(frame->wire.ranks, 4);
    const RowBytes row = wire_row_bytes(payload, history->info().dim);
    for (std::size_t source = 0; source < 4; ++source)
      for (std::size_t to = 0; to < 4; ++to) {
        if (source == to) continue;
        std::uint64_t bytes = 0;  // tokens to experts, outputs back to tokens, and gradients of both
        for (const RouterFrame& router : frame->routers)
          bytes += router.volume.copies_RR[source * 4 + to] * (row.dispatch + row.combine_gradient) +
                   router.volume.copies_RR[to * 4 + source] * (row.combine + row.dispatch_gradient);
        EXPECT_EQ(frame->wire.sent_RR[source * 4 + to], bytes) << source << " to " << to;
      }
    for (const float ms : frame->wire.all_to_all_ms_R) EXPECT_GT(ms, 0);
  }
}

TEST_F(MpiTrain, GoesOnBitIdenticallyOnOtherNumbersOfRanks) {
  const std::string what = "--preset nano --set precision.experts=mxfp8_rceil ";
  ASSERT_EQ(run(kAlone + what + "--steps 12 --checkpoint " + path("whole")).status, 0);
  ASSERT_EQ(run(mpirun(4) + what + "--steps 5 --checkpoint " + path("spread")).status, 0);
  const std::string resume = "--resume " + path("spread") + " --checkpoint " + path("spread");
  const Ended two = run(mpirun(2) + resume + " --steps 9");
  ASSERT_EQ(two.status, 0) << two.output;
  ASSERT_EQ(run(kAlone + resume + " --steps 12").status, 0);
  expect_the_same_weights(path("whole"), path("spread"));
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

class MpiKilled : public MpiTrain, public ::testing::WithParamInterface<std::size_t> {};

TEST_P(MpiKilled, EndsTheRunAndLeavesTheRecordingWhole) {
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    std::freopen(path("log").c_str(), "w", stderr);
    std::freopen("/dev/null", "w", stdout);
    const std::string command = "exec " + mpirun(4) + "--preset nano --steps 1000000 --out " + path("run.moescope") +
                                " --checkpoint " + path("kept") + " --every 2";
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  for (int i = 0; i < 1200 && checkpoint_steps(path("kept")).size() < 3; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ASSERT_GE(checkpoint_steps(path("kept")).size(), 3u);
  const Ended ranks = run("pgrep -P " + std::to_string(child));
  std::vector<pid_t> pids;
  std::istringstream in(ranks.output);
  for (pid_t pid = 0; in >> pid;) pids.push_back(pid);
  ASSERT_EQ(pids.size(), 4u);
  kill(pids[GetParam()], SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  std::stringstream log;
  log << std::ifstream(path("log")).rdbuf();
  EXPECT_EQ(count(log.str(), "--resume"), 1u) << log.str();  // one of the other ranks prints it

  const auto history = RecordingReader(path("run.moescope")).load(0);
  EXPECT_GE(history->steps().last, checkpoint_steps(path("kept")).back() - 1);
  const std::int64_t to = checkpoint_steps(path("kept")).back() + 2;
  const Ended resumed = run(mpirun(4) + "--resume " + path("kept") + " --steps " + std::to_string(to));
  EXPECT_EQ(resumed.status, 0) << resumed.output;
}

INSTANTIATE_TEST_SUITE_P(FirstAndLast, MpiKilled, ::testing::Values(0u, 3u));

TEST_F(MpiTrain, WrongStartsAreRefusedAndNobodyWaits) {
  Ended ended = run(mpirun(2) + "--preset nano --steps 1 --out " + path("none/x.moescope"));
  EXPECT_NE(ended.status, 0);
  EXPECT_NE(ended.output.find("--out"), std::string::npos) << ended.output;
  ended = run("timeout 60 " + mpirun(2) + "--preset nano --steps 1 --checkpoint /proc/none");
  EXPECT_EQ(count(ended.output, "--checkpoint /proc/none"), 1u) << ended.output;
  ended = run(std::string(MOESCOPE_CLI) + " train --preset nano --steps 1 --ep 2");
  EXPECT_NE(ended.status, 0);
  EXPECT_NE(ended.output.find("mpirun -n 2"), std::string::npos) << ended.output;
  ended = run(mpirun(3) + "--preset nano --steps 1");
  EXPECT_EQ(count(ended.output, "power of two"), 1u) << ended.output;  // only one rank prints it
  ended = run(std::string(MOESCOPE_MPIRUN) + " -n 2 " + MOESCOPE_CLI + " train --preset nano --steps 1 --ep 4");
  EXPECT_EQ(count(ended.output, "expected mpirun -n 4"), 1u) << ended.output;
  ended = run(std::string(MOESCOPE_MPIRUN) + " -n 2 " + MOESCOPE_CLI + " train --preset nano --steps 1 --ep many");
  EXPECT_EQ(count(ended.output, "moescope-cli: error"), 1u) << ended.output;
}

}  // namespace
}  // namespace moescope
