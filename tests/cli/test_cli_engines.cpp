// Runs the commands that write files for engines that serve a model: volumes --write-placement on logs whose loads are
// known, export --to routed-experts.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tests/support/cli_fixture.h"

namespace moescope {
namespace {

using Json = nlohmann::json;

class CliEngines : public Cli {
 protected:
  // 100 steps of two layers; `first` and `later`: loads of layer 0 in the first and the second half.
  void write_log(const std::string& first, const std::string& later) {
    std::string log;
    for (int step = 0; step < 100; ++step)
      log += R"({"step":)" + std::to_string(step) + R"(,"loss":2,"tokens_per_expert":[)" + (step < 50 ? first : later) +
             ",[8,8,8,8]]}\n";
    write("run.jsonl", log);
  }
  Result plan(std::vector<std::string> options) {
    std::vector<std::string> arguments{"volumes", "--recording",       path("run.jsonl"), "--ranks",
                                       "2",       "--write-placement", path("plan.json"), "--overwrite"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run(arguments);
  }
};

TEST_F(CliEngines, PlansAreTriedOnTheStepsAfterThem) {
  write_log("[20,10,1,1]", "[1,1,10,20]");
  const Result result = plan({"--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json layer = Json::parse(result.out)["layers"][0];
  EXPECT_NEAR(layer["plan_steps_in_order"].get<double>(), 30 / 16.0, 1e-6);
  EXPECT_NEAR(layer["plan_steps_planned"].get<double>(), 21 / 16.0, 1e-6) << "20 + 1 on one rank, 10 + 1 on the other";
  EXPECT_NEAR(layer["later_steps_in_order"].get<double>(), 30 / 16.0, 1e-6);
  EXPECT_GE(layer["later_steps_planned"].get<double>(), 21 / 16.0 - 1e-6);
  EXPECT_EQ(Json::parse(result.out)["later_steps"], "50 to 99");
}

TEST_F(CliEngines, PlacementIsTheOneThatSglangReads) {
  write_log("[20,10,1,1]", "[20,10,1,1]");
  ASSERT_EQ(plan({"--slots", "3"}).status, 0);
  const Json sglang = Json::parse(read("plan.json"));
  ASSERT_EQ(sglang.size(), 1u) << "SGLang passes every key on";
  ASSERT_EQ(sglang["physical_to_logical_map"].size(), 2u);
  for (const Json& row : sglang["physical_to_logical_map"]) {
    EXPECT_EQ(row.size(), 6u);
    EXPECT_EQ(row.get<std::set<int>>(), (std::set<int>{0, 1, 2, 3})) << "every expert has a slot";
  }
}

TEST_F(CliEngines, RefusesWhatItCannotPlan) {
  write_log("[20,10,1,1]", "[20,10,1,1]");
  const auto refusal = [&](std::vector<std::string> options) {
    const Result result = plan(std::move(options));
    EXPECT_EQ(result.status, 2) << result.out;
    return result.err;
  };
  EXPECT_NE(refusal({"--slots", "1"}).find("do not hold 4 experts: 2 are needed"), std::string::npos);
  EXPECT_NE(refusal({"--plan-until", "99"}).find("--plan-until"), std::string::npos);
  EXPECT_NE(refusal({"--run", "3"}).find("has no run 3"), std::string::npos);
  EXPECT_NE(refusal({"--model", "16B"}).find("--model"), std::string::npos);
  write("run.jsonl", "{\"step\":0,\"loss\":2}\n{\"step\":1,\"loss\":2}\n");
  EXPECT_NE(refusal({}), "");
  EXPECT_EQ(run({"volumes", "--plan-until", "3"}).status, 2);
}

TEST_F(CliEngines, ExpertsOfARecordedTextAreReadAsOfAnEngine) {
  const std::string recording = path("r.moescope"), experts = path("routed_experts.npy");
  ASSERT_EQ(run(train({"--steps", "2", "--set", "telemetry.texts_every=1", "--out", recording})).status, 0);
  const Result written = run({"export", recording, "--to", "routed-experts", "-o", experts});
  ASSERT_EQ(written.status, 0) << written.err;
  EXPECT_NE(written.out.find("probe of step 1"), std::string::npos) << written.out;
  const Result read_back = run({"figures", experts, "--figure", "max_vio"});
  EXPECT_EQ(read_back.status, 0) << read_back.err;
  EXPECT_EQ(run({"export", recording, "--to", "routed-experts", "-o", experts}).status, 2) << "it exists";
  EXPECT_EQ(run({"export", recording, "--to", "routed-experts", "-o", experts, "--run", "x", "--overwrite"}).status, 2);
  write("log.jsonl", "{\"step\":0,\"loss\":2}\n");
  const Result refused = run({"export", path("log.jsonl"), "--to", "routed-experts", "-o", path("none.npy")});
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("has no routed text"), std::string::npos) << refused.err;
}

}  // namespace
}  // namespace moescope
