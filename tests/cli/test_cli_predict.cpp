// Runs moescope-cli predict and volumes as a user does.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace moescope {
namespace {

using Json = nlohmann::json;

struct Predicted {
  int status = -1;
  std::string out;  // both streams
};

Predicted run(const std::string& arguments) {
  Predicted result;
  FILE* pipe = ::popen((std::string(MOESCOPE_CLI) + " " + arguments + " 2>&1").c_str(), "r");
  if (!pipe) return result;
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) result.out.append(buffer, n);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
  return result;
}

// --routing FILE: predicts with the load of a recorded router, and prints the cost of this load for each EP degree.
TEST(CliPredict, AnswersWithTheRouterOfARecording) {
  const auto path =
      std::filesystem::temp_directory_path() / ("moescope_routing_" + std::to_string(::getpid()) + ".moescope");
  ASSERT_EQ(run("train --preset nano --steps 3 --overwrite --out " + path.string()).status, 0);
  const std::string what = "predict --recipe mxfp8 --all-to-all deepep --routing " + path.string();
  const Predicted free = run(what + " --json"), limited = run(what + " --node-limited --json"), table = run(what);
  const Predicted no_layer = run(what + " --layer 7"), no_run = run(what + " --run 3");
  const Predicted balanced = run(what + " --placement balanced --slots 9 --json");
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path.string() + suffix);
  ASSERT_EQ(free.status, 0) << free.out;
  ASSERT_EQ(limited.status, 0) << limited.out;
  ASSERT_EQ(balanced.status, 0) << balanced.out;
  const Json a = Json::parse(free.out), b = Json::parse(limited.out), c = Json::parse(balanced.out);
  EXPECT_LT(b["traffic"]["network_copies_per_token"].get<double>(),
            a["traffic"]["network_copies_per_token"].get<double>());
  EXPECT_LT(c["traffic"]["expert_rows_max_over_mean"].get<double>(),
            a["traffic"]["expert_rows_max_over_mean"].get<double>());
  EXPECT_LT(a["tokens_per_second_per_gpu"]["value"].get<double>(), 918);
  // The row of EP 32 has the parameters of the prediction itself, so the speeds are equal.
  ASSERT_EQ(a["cost_of_this_load"].size(), 25u);
  for (const Json& row : a["cost_of_this_load"]) {
    EXPECT_EQ(row["kind"], "modelled");
    if (row["ep"] == 32 && row["variant"] == "as it is") {
      EXPECT_NEAR(row["tokens_per_second_per_gpu"].get<double>(), a["tokens_per_second_per_gpu"]["value"].get<double>(),
                  1e-6);
    }
  }
  EXPECT_NE(table.out.find("cost of this imbalance"), std::string::npos);
  EXPECT_NE(no_layer.status, 0);
  EXPECT_NE(no_layer.out.find("of layer 7"), std::string::npos) << no_layer.out;
  EXPECT_NE(no_run.out.find("has no run 3"), std::string::npos) << no_run.out;
}

TEST(CliPredict, StatesTheKindOfEveryPart) {
  const Predicted result = run("predict --model 671B --hardware b200 --recipe mxfp8 --all-to-all deepep --json");
  ASSERT_EQ(result.status, 0) << result.out;
  const Json report = Json::parse(result.out);
  EXPECT_NEAR(report["tokens_per_second_per_gpu"]["value"].get<double>(), 918, 1e-6);
  for (const Json& part : report["parts"]) {
    EXPECT_TRUE(part["kind"] == "modelled" || part["kind"] == "fitted") << part;
    EXPECT_FALSE(part["how"].get<std::string>().empty());
    const std::string name = part["name"];
    const bool fitted = name == "routed experts" || name == "quantization" || name == "rest" ||
                        name == "uneven stages" || name == "pipeline bubble";
    EXPECT_EQ(!part["fitted"].get<std::string>().empty(), fitted) << part;
  }
  EXPECT_GE(report["open"].size(), 5u);
  // The network's 43 GB/s are three quarters of the published number. Numbers taken on H200s are "measured elsewhere".
  const Predicted h200 = run("predict --hardware h200 --json");
  ASSERT_EQ(h200.status, 0) << h200.out;
  const Json profile = Json::parse(h200.out)["profile"];
  EXPECT_EQ(profile["deep_ep_network"]["kind"], "modelled");
  EXPECT_EQ(profile["memory_copy"]["kind"], "measured elsewhere");
  EXPECT_EQ(profile["attention_bf16"]["kind"], "assumed");
  EXPECT_EQ(profile["sustained_gemm_slowdown"]["kind"], "fitted");
}

TEST(CliVolumes, PrintsTheWorkedFigures) {
  const Predicted result = run("volumes --model 671B --ranks 32 --routing forced --json");
  ASSERT_EQ(result.status, 0) << result.out;
  const Json report = Json::parse(result.out);
  EXPECT_EQ(report["standard"]["operations"][0]["bytes_per_token"], 114688);
  EXPECT_EQ(report["standard"]["operations"][0]["network_bytes_per_token"], 86016);
  EXPECT_EQ(report["deepep"]["operations"][0]["network_bytes_per_token"], 10752);
  EXPECT_EQ(report["deepep"]["operations"].size(), 6u);
  // All copies of a token go to one rank, so DeepEP sends one copy over the network in place of eight.
  EXPECT_NEAR(report["saved_by_deepep"].get<double>(), 1 - 10752.0 / 86016, 1e-9);
  const Predicted table = run("volumes --model 671B --ranks 32 --routing forced");
  EXPECT_NE(table.out.find("saved by DeepEP, of the network bytes of the standard dispatch: 87.5 %\n"),
            std::string::npos)
      << table.out;
  const Predicted one_node = run("volumes --model 671B --ranks 8 --routing forced");
  EXPECT_EQ(one_node.out.find("saved by DeepEP"), std::string::npos) << one_node.out;
}

TEST(CliVolumes, ReadsARoutingFile) {
  const Predicted result = run(std::string("volumes --json --ranks 64 --topk ") + MOESCOPE_TEST_DATA +
                               "/golden/volumes/v3_64_ranks_round_robin.safetensors");
  ASSERT_EQ(result.status, 0) << result.out;
  EXPECT_EQ(Json::parse(result.out)["ranks_per_token"], 2);  // a token chooses 8 consecutive experts, and a rank has 4
}

// A negative expert id means no expert, as in DeepEP: padding of ranks, and tokens with one expert or none.
TEST(CliVolumes, NegativeExpertsAreSentNowhere) {
  const std::vector<std::int64_t> topk_RTK{0, 1, 2, -1, -1, -1, 7,  6,  0,  7,  -1, 3,
                                           4, 4, 5, 1,  2,  3,  -1, -1, -1, -1, -1, -1};
  std::string header = R"({"topk_idx":{"dtype":"I64","shape":[4,3,2],"data_offsets":[0,192]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  const auto file =
      std::filesystem::temp_directory_path() / ("moescope_topk_" + std::to_string(::getpid()) + ".safetensors");
  std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(&length), 8)
      << header << std::string_view(reinterpret_cast<const char*>(topk_RTK.data()), 8 * topk_RTK.size());
  const std::string command = "volumes --experts 8 --ranks 4 --ranks-per-node 2 --topk " + file.string();
  const Predicted result = run(command + " --json --matrices"), table = run(command);
  std::filesystem::remove(file);
  ASSERT_EQ(result.status, 0) << result.out;
  const Json report = Json::parse(result.out);
  EXPECT_EQ(report["copies_RR"], Json::parse("[2,1,0,0,1,1,0,3,1,2,3,0,0,0,0,0]"));
  EXPECT_EQ(report["distinct_RR"], Json::parse("[1,1,0,0,1,1,0,2,1,1,2,0,0,0,0,0]"));
  EXPECT_EQ(report["nodes_RN"], Json::parse("[2,0,2,2,2,2,0,0]"));
  EXPECT_EQ(report["copies_RE"], Json::parse("[1,1,1,0,0,0,0,0,1,0,0,1,0,0,1,2,0,1,1,1,2,1,0,0,0,0,0,0,0,0,0,0]"));
  EXPECT_EQ(report["slots_sent_nowhere"], 10);
  EXPECT_NE(table.out.find("slots without an expert (-1), sent nowhere: 10\n"), std::string::npos) << table.out;
}

// Ranks, nodes and experts come from the file. The copies add up to all slots of the file.
TEST(CliVolumes, TakesItsTopologyFromTheRoutingFile) {
  const std::string path = std::string(MOESCOPE_TEST_DATA) + "/golden/volumes/16b_16_ranks_skewed.safetensors";
  const Predicted topk = run("volumes --json --matrices --topk " + path),
                  routing = run("volumes --json --routing " + path);
  ASSERT_EQ(topk.status, 0) << topk.out;
  ASSERT_EQ(routing.status, 0) << routing.out;
  const Json report = Json::parse(topk.out);
  EXPECT_EQ(report["ranks"], 16);
  EXPECT_EQ(report["n_experts"], 64);
  EXPECT_EQ(report["top_k"], 6);
  ASSERT_EQ(report["copies_RE"].size(), 16u * 64);
  std::int64_t copies = 0;
  for (const Json& count : report["copies_RE"]) copies += count.get<std::int64_t>();
  EXPECT_EQ(copies, 49152);
  EXPECT_EQ(Json::parse(routing.out)["standard"], report["standard"]);
}

// The counts of a recording are exact for its own ranks; its load can be used for any shape and any number of ranks.
TEST(CliVolumes, RoutesByTheLoadOfARecording) {
  const auto file =
      std::filesystem::temp_directory_path() / ("moescope_volumes_" + std::to_string(::getpid()) + ".moescope");
  ASSERT_EQ(run("train --preset nano --steps 3 --overwrite --out " + file.string()).status, 0);
  const Predicted exact = run("volumes --json --recording " + file.string());
  const Predicted ranks = run("volumes --ranks 64 --recording " + file.string());
  const Predicted routed =
      run("volumes --json --model 671B --ranks 64 --tokens-per-rank 64 --routing " + file.string());
  const Predicted late = run("volumes --step 3 --recording " + file.string());
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(file.string() + suffix);
  ASSERT_EQ(exact.status, 0) << exact.out;
  ASSERT_EQ(routed.status, 0) << routed.out;
  EXPECT_EQ(Json::parse(exact.out)["ranks"], 4);
  EXPECT_EQ(Json::parse(routed.out)["ranks"], 64);
  EXPECT_EQ(Json::parse(routed.out)["n_experts"], 256);
  EXPECT_GT(Json::parse(routed.out)["standard"]["received_max_over_mean"].get<double>(), 1.1);
  EXPECT_EQ(ranks.status, 2);
  EXPECT_NE(ranks.out.find("--ranks cannot be used with --recording"), std::string::npos) << ranks.out;
  EXPECT_EQ(late.status, 2);
  EXPECT_NE(late.out.find("ends with step 2, before step 3"), std::string::npos) << late.out;
}

TEST(CliPredict, WrongInputIsTwoAndSaysWhatIsAllowed) {
  for (const auto& [arguments, expected_text] : {std::pair{"predict --hardware h100 --recipe mxfp8", "H100"},
                                                 {"predict --routing even", "zipf:EXPONENT"},
                                                 {"predict --ep 48", "EP 48"},
                                                 {"volumes --placement best", "{contiguous,random,balanced}"},
                                                 {"volumes --topk /nowhere.safetensors", "/nowhere.safetensors"},
                                                 {"volumes --slots 3", "needs --placement balanced"},
                                                 {"volumes --matrices", "needs --json"},
                                                 {"volumes --layer 1", "needs --recording"},
                                                 {"volumes --tensor x", "needs --topk"},
                                                 {"predict --node-limited", "needs a recording"},
                                                 {"volumes --ranks 0", "volumes --help shows"},
                                                 {"volumes --recording /x --layer -1", "is not at least 0"},
                                                 {"volumes --recording /x --step -1", "is not at least 0"},
                                                 {"predict --recording /x --step -1", "is not at least 0"}}) {
    const Predicted result = run(arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_NE(result.out.find(expected_text), std::string::npos) << result.out;
  }
}

}  // namespace
}  // namespace moescope
