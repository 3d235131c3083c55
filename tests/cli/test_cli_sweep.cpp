// Runs moescope-cli sweep as a user does.
#include <algorithm>
#include <map>

#include "tests/support/cli_fixture.h"

namespace moescope {
namespace {

class Sweeps : public Cli {
 protected:
  std::vector<std::string> sweep(std::vector<std::string> more = {}) const {
    std::vector<std::string> all = {
        "sweep",   "--config", path("nano.toml"), "--over",           "router.top_k=1,2", "--seeds",    "2",
        "--steps", "3",        "--out",           path("s.moescope"), "--table",          path("t.csv")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(Sweeps, TrainsTheGridAndSaysWhatCameOfIt) {
  const Result first = run(sweep());
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_NE(first.err.find("4 of 4 runs"), std::string::npos) << first.err;
  EXPECT_NE(first.out.find("losses of equal seeds"), std::string::npos) << first.out;
  for (int n = 1; n <= 4; ++n) EXPECT_TRUE(fs::exists(path("s-" + std::to_string(n) + ".moescope")));
  const std::string csv = read("t.csv");
  EXPECT_EQ(std::ranges::count(csv, '\n'), 3) << csv;
  EXPECT_TRUE(csv.starts_with("router.top_k,seeds,lost,loss_nats,")) << csv;
  EXPECT_NE(csv.find("\n2,2,0,"), std::string::npos) << csv;
  EXPECT_EQ(run({"reproduce", path("s-4.moescope")}).status, 0);

  const Result repeated = run(sweep());
  EXPECT_EQ(repeated.status, 2);
  EXPECT_NE(repeated.err.find("--continue keeps"), std::string::npos) << repeated.err;

  // --continue trains only the missing run, with equal losses.
  fs::remove(path("s-3.moescope"));
  const auto written = fs::last_write_time(path("s-2.moescope"));
  const Result continued = run(sweep({"--continue"}));
  EXPECT_EQ(continued.status, 0) << continued.err;
  EXPECT_EQ(fs::last_write_time(path("s-2.moescope")), written);
  const auto losses = [](const std::string& text) {
    std::vector<std::string> found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::size_t comma = line.size();
      for (int i = 0; i < 2; ++i) comma = line.rfind(',', comma - 1);
      found.push_back(line.substr(comma));
    }
    return found;
  };
  EXPECT_EQ(losses(read("t.csv")), losses(csv));

  // --continue refuses runs with other settings under the same name.
  const Result mixed = run(sweep({"--continue", "--set", "optimizer.lr=0.001"}));
  EXPECT_EQ(mixed.status, 2);
  EXPECT_NE(mixed.err.find("belongs to another comparison"), std::string::npos) << mixed.err;
}

TEST_F(Sweeps, FormatsBecomeTrainingRecipes) {
  const std::vector<std::string> formats = {"sweep",
                                            "--config",
                                            path("nano.toml"),
                                            "--over",
                                            "precision.experts=bf16,mxfp8_rceil,mxfp4",
                                            "--seeds",
                                            "2",
                                            "--steps",
                                            "3",
                                            "--out",
                                            path("f.moescope"),
                                            "--recipes"};
  const auto with = [&](const std::string& file) {
    std::vector<std::string> all = formats;
    all.push_back(path(file));
    return run(all);
  };
  EXPECT_NE(with("r.txt").err.find("expected a name that ends in .json"), std::string::npos);
  const Result result = with("r.json");
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json recipes = nlohmann::json::parse(read("r.json"))["recipes"];
  ASSERT_EQ(recipes.size(), 3u);
  EXPECT_EQ(recipes[1]["settings"]["precision.experts"], "mxfp8_rceil");
  EXPECT_EQ(recipes[1]["evidence"]["seeds"], 2);
  EXPECT_EQ(recipes[1]["evidence"]["steps"], 3);
  EXPECT_EQ(recipes[1]["torchao"]["configs"][0]["config"], "MXFP8TrainingOpConfig");
  EXPECT_EQ(recipes[2]["not_expressed"].size(), 2u) << recipes[2];

  const std::vector<std::string> compared = {"export", path("f-1.moescope"), "--to", "recipe", "-o", path("c.json")};
  EXPECT_EQ(run(compared).err.find("moescope-cli: error: " + path("f-1.moescope") + ": has one run; "), 0u);
  std::vector<std::string> pair = compared;
  pair.insert(pair.end(), {"--with", path("f-2.moescope")});
  ASSERT_EQ(run(pair).status, 0) << run(pair).err;
  EXPECT_EQ(nlohmann::json::parse(read("c.json"))["recipes"][1]["evidence"]["steps"], 3);
}

TEST_F(Sweeps, ProcessesShareTheRunsAndTheLastWritesTheTable) {
  ASSERT_EQ(run(sweep({"--out", path("alone.moescope"), "--table", path("alone.csv")})).status, 0);
  const Result first = run(sweep({"--share", "1/2"}));
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_FALSE(fs::exists(path("t.csv"))) << "half of the runs are missing";
  EXPECT_FALSE(fs::exists(path("s-1.moescope")));
  EXPECT_TRUE(fs::exists(path("s-2.moescope")));
  const Result last = run(sweep({"--share", "0/2"}));
  ASSERT_EQ(last.status, 0) << last.err;
  const auto without_speed = [](const std::string& csv) {  // keeps the first columns; tokens/s is measured
    std::string stable_part;
    std::istringstream lines(csv);
    for (std::string line; std::getline(lines, line);)
      stable_part += line.substr(0, line.find("tokens_per_s")).substr(0, 40) + '\n';
    return stable_part;
  };
  EXPECT_EQ(without_speed(read("t.csv")), without_speed(read("alone.csv")));
  for (const char* wrong : {"2/2", "-1/2", "1", "a/b", "1/2x"}) {
    const Result refused = run(sweep({"--share", wrong, "--continue"}));
    EXPECT_EQ(refused.status, 2) << wrong;
    EXPECT_NE(refused.err.find("expected RANK/RANKS"), std::string::npos) << refused.err;
  }
}

TEST_F(Sweeps, AProcessPassesOverWhatOthersAreStillToWrite) {
  ASSERT_EQ(run(sweep()).status, 0);
  const Result replaces = run(sweep({"--share", "1/2", "--overwrite", "--set", "optimizer.lr=0.001"}));
  EXPECT_EQ(replaces.status, 0) << replaces.err;
  write("s-1.moescope", "");  // just created by another process
  const Result other_share = run(sweep({"--share", "1/2", "--overwrite"}));
  EXPECT_EQ(other_share.status, 0) << other_share.err;
}

TEST_F(Sweeps, TheTableOfAStoppedProcessHasTheRunsThatOthersEnded) {
  ASSERT_EQ(run(sweep({"--share", "1/2", "--steps", "2000"})).status, 0);
  const pid_t pid = start(sweep({"--share", "0/2", "--steps", "2000"}));
  while (!fs::exists(path("s-1.moescope"))) std::this_thread::sleep_for(5ms);
  kill(pid, SIGINT);
  EXPECT_EQ(finish(pid).status, 130);
  EXPECT_NE(read("t.csv").find("\n2,2,0,"), std::string::npos) << read("t.csv");
}

TEST_F(Sweeps, ShareAsMpirunAndSrunSay) {
  const auto trained = [&](const std::map<std::string, std::string>& environment) {
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    EXPECT_EQ(run(sweep({"--overwrite"})).status, 0);
    for (const auto& [name, value] : environment) ::unsetenv(name.c_str());
    std::string numbers;
    for (int n = 1; n <= 4; ++n)
      if (fs::remove(path("s-" + std::to_string(n) + ".moescope"))) numbers += std::to_string(n);
    return numbers;
  };
  EXPECT_EQ(trained({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "3"}, {"SLURM_PROCID", "0"}}), "3");
  EXPECT_EQ(trained({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}), "24");
  EXPECT_EQ(trained({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_NTASKS", "16"}}), "14");
  EXPECT_EQ(trained({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "16"}}), "1234") << "a batch script without srun";
  EXPECT_EQ(trained({{"PMI_RANK", "4"}, {"PMI_SIZE", "4"}}), "1234") << "no such rank";
}

TEST_F(Sweeps, RefusesWhatIsNoGrid) {
  const auto refused = [&](std::vector<std::string> more) {
    const Result result = run(sweep(std::move(more)));
    EXPECT_EQ(result.status, 2);
    return result.err;
  };
  EXPECT_NE(refused({"--over", "router.topk=1"}).find("did you mean router.top_k"), std::string::npos);
  EXPECT_NE(refused({"--over", "precision.experts=fp31"}).find("precision.experts"), std::string::npos);
  EXPECT_NE(refused({"--over", "router.top_k=9"}).find("given twice"), std::string::npos);
  EXPECT_NE(run({"sweep", "--preset", "mxfp4-everywhere", "--over", "router.top_k=1", "--out", path("x.moescope")})
                .err.find("contains twins"),
            std::string::npos);
  EXPECT_EQ(files(), std::vector<std::string>{"nano.toml"});
}

TEST_F(Sweeps, StopsAfterTheStepInFlightAndGoesOn) {
  std::vector<std::string> longer = sweep({"--steps", "100000"});
  const pid_t pid = start(longer);
  while (!fs::exists(path("s-1.moescope"))) std::this_thread::sleep_for(20ms);
  kill(pid, SIGINT);
  const Result stopped = finish(pid);
  EXPECT_EQ(stopped.status, 130);
  EXPECT_NE(stopped.out.find("with --continue trains what is missing"), std::string::npos) << stopped.out;
}

}  // namespace
}  // namespace moescope
