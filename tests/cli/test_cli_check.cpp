// Runs moescope-cli check and figures as scripts do, and tests their exit status and JSON.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <tuple>
#include <utility>

#include "tests/support/cli_fixture.h"
#include "tests/support/soon.h"

namespace moescope {
namespace {

using Json = nlohmann::json;

class CliCheck : public Cli {
 protected:
  static std::string sample(const char* name) {
    return std::string(MOESCOPE_TEST_DATA) + "/../assets/samples/" + name + ".jsonl";
  }
  static std::vector<std::string> lines_of(const std::string& file) {
    std::ifstream in(file);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }
  void append(const std::string& name, const std::string& line) const {
    std::ofstream(path(name), std::ios::app) << line << '\n';
  }
};

TEST_F(CliCheck, FailsByTheFindingsThatWereNamed) {
  const std::string collapsed = sample("unbalanced_bf16");
  Result result = run({"check", collapsed});
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_NE(result.out.find("Unhealthy: 3 of 8 MoE layers have collapsed"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("FAIL  collapsed, severe"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("Not checked: bias against gate: needs expert_bias and gate_mass."), std::string::npos)
      << result.out;
  EXPECT_EQ(run({"check", collapsed, "--fail-on", "nan,collapsed"}).status, 1);
  result = run({"check", collapsed, "--fail-on", "nan,diverged,underflow"});
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(run({"check", collapsed, "--fail-on", "nan,diverged"}).status, 0);
  EXPECT_NE(result.out.find("--fail-on underflow was not checked"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("--fail-on nan was not"), std::string::npos) << result.out;
  EXPECT_EQ(run({"check", sample("domain_shift")}).status, 0) << "it has a warning only";
  EXPECT_EQ(run({"check", sample("domain_shift"), "--fail-on", "warning"}).status, 1);
}

TEST_F(CliCheck, ATrainerIsComparedWithAnEngine) {
  write("batch.json", R"({"rollout_log_probs": [-1, -2], "old_log_probs": [-1, -1]})");
  const Result text = run({"check", path("batch.json"), "--engine", path("batch.json")});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("compared: 2 tokens\n"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("tokens with a probability ratio beyond 2: 50 %\n"), std::string::npos) << text.out;
  const Json json = Json::parse(run({"check", path("batch.json"), "--engine", path("batch.json"), "--json"}).out);
  EXPECT_EQ(json["tokens"], 2);
  EXPECT_NEAR(json["k3"].get<double>(), (std::exp(1.0) - 2) / 2, 1e-6);
  write("loss.json", "{\"loss\": 2}");
  const Result refused = run({"check", path("loss.json"), "--engine", path("batch.json")});
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find("holds no log-probabilities"), std::string::npos) << refused.err;
}

TEST_F(CliCheck, AFollowedLogThatIsTruncatedIsSaid) {
  write("log.jsonl", "{\"step\":0,\"loss\":5}\n{\"step\":1,\"loss\":NaN}\n");
  const pid_t pid = start({"check", path("log.jsonl"), "--follow", "--until", "3", "--idle", "60", "--fail-on", "dead",
                           "--on-finding", "cat > '" + path("nan") + "'", "--json"});
  ASSERT_EQ(wait_for_lines("nan", 1), 1);  // both steps have been read
  std::filesystem::resize_file(path("log.jsonl"), 0);
  ASSERT_EQ(wait_for_lines("stderr", 1), 1);
  append("log.jsonl", "{\"step\":2,\"loss\":3}");
  std::ofstream(path("log.jsonl"), std::ios::app) << "{\"step\":3,\"loss\":2}";  // without a newline
  const Result result = finish(pid);
  EXPECT_EQ(result.status, 3) << "it has no loads: " << result.err;
  EXPECT_NE(result.err.find("the file was truncated or replaced after step 1"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("its steps go on: the steps up to 1 are kept"), std::string::npos) << result.err;
  EXPECT_EQ(Json::parse(result.out)["runs"][0]["steps"], Json({0, 3})) << result.out;
}

TEST_F(CliCheck, TheLastLineOfAFollowedLogIsReadWhenItIsIdle) {
  std::ofstream log(path("log.txt"));
  log << "step: 9 loss: 3.5\nstep: 10 loss: 2.5" << std::flush;  // stays open
  const Result result = run({"check", path("log.txt"), "--follow", "--until", "20", "--idle", "2", "--json"});
  EXPECT_EQ(Json::parse(result.out)["runs"][0]["steps"], Json({9, 10})) << result.out << result.err;
}

// A pipe whose end is written to while moescope-cli reads it as standard input.
class GrowingPipe {
 public:
  GrowingPipe() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0); }
  ~GrowingPipe() {
    end();
    close(ends_[0]);
  }
  std::function<void()> as_standard_input() const {
    return [this] { dup2(ends_[0], STDIN_FILENO); };
  }
  void write(const std::string& text) const {
    EXPECT_EQ(::write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  // Waits until the program has read all.
  void wait_until_read() const {
    int unread_bytes = 1;
    EXPECT_TRUE(soon([&] { return ioctl(ends_[0], FIONREAD, &unread_bytes) == 0 && unread_bytes == 0; }));
  }
  void end() {
    if (const int file = std::exchange(ends_[1], -1); file >= 0) close(file);
  }

 private:
  int ends_[2] = {-1, -1};
};

TEST_F(CliCheck, StandardInputIsReadToItsEnd) {
  const std::string log = sample("unbalanced_bf16");
  const auto from_log = [&] { dup2(open(log.c_str(), O_RDONLY), STDIN_FILENO); };
  const Result file = run({"check", log, "--json"}), piped = run({"check", "-", "--json"}, from_log);
  EXPECT_EQ(piped.status, file.status) << piped.err;
  const Json expected = Json::parse(file.out)["runs"][0], checked = Json::parse(piped.out)["runs"][0];
  for (const char* key : {"steps", "verdict", "findings", "not_checked"}) EXPECT_EQ(checked[key], expected[key]);
  const Result figures = run({"figures", "-", "--figure", "ce_loss"}, from_log);
  EXPECT_EQ(figures.status, 0) << figures.err;
  EXPECT_NE(figures.out.find("step 1380"), std::string::npos) << figures.out;
}

TEST_F(CliCheck, APipeIsFollowedUntilItEnds) {
  GrowingPipe log;
  const pid_t pid = start({"check", "-", "--follow", "--json"}, log.as_standard_input());
  log.write("{\"step\":0,\"loss\":5}\n{\"step\":1,\"lo");
  std::this_thread::sleep_for(1500ms);  // half a line stays half a line, however long its rest takes
  log.write("ss\":4}\n{\"step\":2,\"loss\":3}");
  log.wait_until_read();
  log.end();
  const Result result = finish(pid);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(Json::parse(result.out)["runs"][0]["steps"], Json({0, 2})) << result.out << result.err;
  EXPECT_EQ(result.err.find("could not be read"), std::string::npos) << result.err;
}

TEST_F(CliCheck, AFindingEndsTheFollowingOfAPipeThatStaysOpen) {
  GrowingPipe log;
  const pid_t pid = start({"check", "-", "--follow", "--fail-on", "nan"}, log.as_standard_input());
  log.write("step: 9 loss: 3.5\nstep: 10 loss: nan\nstep: 11 loss: 2.5\n");
  const Result result = finish(pid);
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_NE(result.out.find("FAIL  nan"), std::string::npos) << result.out;
}

TEST_F(CliCheck, ATablePipedInIsReadAsATable) {
  GrowingPipe table;
  const pid_t pid = start({"check", "-", "--follow", "--json"}, table.as_standard_input());
  table.write("step,lay");
  table.wait_until_read();
  table.write("er,expert,count\n0,0,0,5\n0,0,1,7\n1,0,0,6\n1,0,1,6\n");
  table.end();
  const Result result = finish(pid);
  EXPECT_EQ(Json::parse(result.out)["runs"][0]["steps"], Json({0, 1})) << result.out << result.err;
}

// Figures over all layers tell that experts lose their tokens: chance would not change their share.
TEST_F(CliCheck, ExpertsThatLoseTheirTokensNeedAttentionWithoutLoads) {
  for (const double lost : {0.0, 0.006}) {
    std::ofstream log(path("whole.jsonl"));
    for (int step = 0; step < 60; ++step)
      log << "{\"step\":" << step << ",\"train_mean_nll\":2,\"e_frac_with_tokens:mean\":" << 0.98 - lost * step
          << "}\n";
    log.close();
    const Json run_check = Json::parse(run({"check", path("whole.jsonl"), "--json"}).out)["runs"][0];
    EXPECT_EQ(run_check["verdict"], lost > 0 ? "Needs attention" : "Cannot tell") << run_check;
  }
}

TEST_F(CliCheck, NoCopyOfStandardInputIsLeftBehind) {
  const auto prepare = [this](const GrowingPipe& log) {
    return [this, &log] {
      log.as_standard_input()();
      setenv("TMPDIR", root_.c_str(), 1);
    };
  };
  const std::vector<std::string> before = files();
  GrowingPipe ended;
  ended.write("{\"step\":0,\"loss\":5}\n");
  ended.end();
  EXPECT_EQ(run({"check", "-"}, prepare(ended)).status, 0);
  EXPECT_EQ(files(), before);
  for (const int signal : {SIGINT, SIGKILL}) {
    GrowingPipe stopped;
    stopped.write("{\"step\":0,\"loss\":5}\n");
    const pid_t pid = start({"check", "-", "--follow"}, prepare(stopped));
    const auto end = std::chrono::steady_clock::now() + 30s;
    while (files().size() < before.size() + 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    std::this_thread::sleep_for(300ms);
    EXPECT_EQ(files().size(), before.size() + 2) << "both outputs of the program";
    kill(pid, signal);
    EXPECT_EQ(finish(pid).status, 1000 + signal);
    EXPECT_EQ(files(), before);
  }
}

TEST_F(CliCheck, NoMessageNamesTheCopyOfStandardInput) {
  const char* const logs[] = {"no log\n",
                              "",
                              "{\"step\":0,\"loss\":5}\n{\"step\n",
                              "{\"step\":9}\n{\"step\":2}\n{\"step\":9}\n",
                              "step,layer,expert,count\n0,0,0,x\n",
                              "\x89HDF\n"};
  const std::vector<std::vector<std::string>> commands = {{"check", "-"},
                                                          {"check", "-", "--follow"},
                                                          {"figures", "-"},
                                                          {"figures", "-", "--run", "none"},
                                                          {"import", "-", "-o", path("x.moescope"), "--overwrite"}};
  for (const std::string text : logs)
    for (const std::vector<std::string>& command : commands) {
      GrowingPipe log;
      log.write(text);
      log.end();
      const Result result = run(command, log.as_standard_input());
      EXPECT_EQ((result.out + result.err).find("/proc/"), std::string::npos) << result.out << result.err;
      EXPECT_EQ(result.err.find("error: -:"), std::string::npos) << result.err;
    }
}

TEST_F(CliCheck, StandardInputThatCannotBeReadIsRefused) {
  const Result terminal = run({"check", "-"}, [] { dup2(open("/dev/ptmx", O_RDWR | O_NOCTTY), STDIN_FILENO); });
  EXPECT_EQ(terminal.status, 2);
  EXPECT_NE(terminal.err.find("is a terminal, expected a log"), std::string::npos) << terminal.err;
  const Result closed = run({"check", "-", "--follow"}, [] { close(STDIN_FILENO); });
  EXPECT_EQ(closed.status, 2);
  EXPECT_NE(closed.err.find("standard input: is closed"), std::string::npos) << closed.err;
  const Result folder = run({"check", "-", "--follow"}, [] { dup2(open("/", O_RDONLY), STDIN_FILENO); });
  EXPECT_EQ(folder.status, 2);
  EXPECT_NE(folder.err.find("standard input: Is a directory"), std::string::npos) << folder.err;
  const Result empty = run({"figures", "-"}, [] { dup2(open("/dev/null", O_RDONLY), STDIN_FILENO); });
  EXPECT_EQ(empty.status, 2);
  const Result twice = run({"check", "-", "--engine", "-"}, [] { dup2(open("/dev/null", O_RDONLY), STDIN_FILENO); });
  EXPECT_EQ(twice.status, 2);
  EXPECT_NE(twice.err.find("named twice"), std::string::npos) << twice.err;
}

TEST_F(CliCheck, ALossThatWasNoNumberCountsForEver) {
  write("nan.jsonl", "{\"step\":0,\"loss\":5}\n{\"step\":1,\"loss\":NaN}\n{\"step\":2,\"loss\":4}\n");
  EXPECT_EQ(run({"check", path("nan.jsonl"), "--fail-on", "nan"}).status, 1);
}

TEST_F(CliCheck, JsonHasEveryFindingAndWhetherItFails) {
  const Result result = run({"check", sample("unbalanced_bf16"), "--json", "--fail-on", "collapsed"});
  EXPECT_EQ(result.status, 1);
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["moescope_check"], 2);
  EXPECT_EQ(json["failed"], true);
  const Json& checked = json["runs"][0];
  EXPECT_EQ(checked["steps"], Json({0, 1380}));
  EXPECT_EQ(checked["verdict"], "Unhealthy");
  EXPECT_FALSE(checked["not_checked"].empty());
  ASSERT_FALSE(checked["passed"].empty());
  for (const std::string line : checked["passed"]) EXPECT_EQ(line.find("collapse"), std::string::npos) << line;
  int collapsed = 0;
  for (const Json& finding : checked["findings"]) {
    EXPECT_EQ(finding["fails"], finding["kind"] == "collapsed");
    collapsed += finding["kind"] == "collapsed";
  }
  EXPECT_EQ(collapsed, 3);
}

TEST_F(CliCheck, WrongWordsAreNamed) {
  const Result word = run({"check", sample("domain_shift"), "--fail-on", "colapsed"});
  EXPECT_EQ(word.status, 2);
  EXPECT_NE(word.err.find("\"colapsed\" is not a finding; allowed: severe, warning, nan"), std::string::npos)
      << word.err;
  EXPECT_EQ(run({"check", path("nothing.jsonl")}).status, 2);
  EXPECT_EQ(run({"check", sample("domain_shift"), "--until", "5"}).status, 2) << "--until needs --follow";
  EXPECT_EQ(run({"check", sample("domain_shift"), "--follow", "--until", "soon"}).status, 2);
}

TEST_F(CliCheck, ScanRanksOperandsByTheGradientsError) {
  const Result result = run({"scan", "--preset", "nano", "--steps", "3", "--set", "precision.experts=mxfp4", "--json"});
  EXPECT_EQ(result.status, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["moescope_scan"], 1);
  EXPECT_EQ(json["step"], 3);
  ASSERT_EQ(json["operands"].size(), 12u) << "six operands in two layers";
  double last = 1;
  for (const Json& operand : json["operands"]) {
    EXPECT_EQ(operand["class"], "experts");
    EXPECT_EQ(operand["recipe"], "mxfp4");
    EXPECT_GT(operand["gradient_error"], 0);
    EXPECT_LE(operand["gradient_error"], last);
    last = operand["gradient_error"];
  }
  EXPECT_EQ(run({"scan", "--preset", "nano", "--steps", "1"}).status, 2) << "nothing is rounded";
  const Result wrong = run({"scan", "--preset", "nano", "--recipe", "fp3"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_NE(wrong.err.find("allowed: fp32"), std::string::npos) << wrong.err;
}

TEST_F(CliCheck, FollowsALogUntilItFails) {
  const std::vector<std::string> lines = lines_of(sample("unbalanced_bf16"));
  const pid_t pid = start({"check", path("log.jsonl"), "--follow", "--fail-on", "collapsed", "--idle", "60"});
  std::size_t line = 0;
  for (; line < 20; ++line) append("log.jsonl", lines[line]);
  std::this_thread::sleep_for(700ms);
  EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), 0) << "nothing has collapsed in 400 steps";
  for (; line < lines.size(); ++line) append("log.jsonl", lines[line]);
  const Result result = finish(pid);
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_NE(result.out.find("FAIL  collapsed"), std::string::npos) << result.out;
}

TEST_F(CliCheck, FollowingEndsAtItsStepOrWhenNothingIsAdded) {
  const std::vector<std::string> lines = lines_of(sample("unbalanced_bf16"));
  for (std::size_t line = 0; line < 10; ++line) append("log.jsonl", lines[line]);
  append("log.jsonl", R"({"step": 300, "gpu_hours": 3})");
  const Result followed = run({"check", path("log.jsonl"), "--follow", "--until", "100", "--fail-on", "nan"});
  EXPECT_EQ(followed.status, 0);
  EXPECT_NE(followed.err.find("not shown: gpu_hours"), std::string::npos) << followed.err;
  EXPECT_EQ(
      run({"check", path("log.jsonl"), "--follow", "--until", "5000", "--idle", "0.5", "--fail-on", "nan"}).status, 0);
}

TEST_F(CliCheck, FiguresAreThoseOfTheLog) {
  const std::vector<std::string> lines = lines_of(sample("unbalanced_bf16"));
  const Json logged = Json::parse(lines[3]);
  const std::int64_t step = logged["step"];
  const Result result = run({"figures", sample("unbalanced_bf16"), "--at", std::to_string(step), "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["step"], step);
  double loss = 0, max_vio_of_layer_2 = 0;
  for (const Json& figure : json["figures"]) {
    for (const Json& value : figure["values"]) {
      EXPECT_LE(value["step"], step);
      if (figure["key"] == "ce_loss") loss = value["value"];
      if (figure["key"] == "max_vio" && value["layer"] == 2) max_vio_of_layer_2 = value["value"];
    }
    if (figure["key"] == "ce_loss") {
      EXPECT_EQ(figure["provenance"], "from the log");
      EXPECT_EQ(figure["unit"], "nats/token");
    }
  }
  EXPECT_NEAR(loss, logged["loss"].get<double>(), 1e-5);
  // MaxVio computed from the log's counts: the largest count divided by the mean, minus 1. Layer 0 is dense.
  const Json& counts = logged["tokens_per_expert"][1];
  double sum = 0, largest = 0;
  for (const double n : counts) {
    sum += n;
    largest = std::max(largest, n);
  }
  EXPECT_NEAR(max_vio_of_layer_2, largest * static_cast<double>(counts.size()) / sum - 1, 1e-5);
  EXPECT_EQ(json["routers"]["step"], step);
  EXPECT_EQ(json["routers"]["values"][1]["tokens_per_expert"], counts);
}

TEST_F(CliCheck, FiguresOfARecordingByKeyAndStep) {
  ASSERT_EQ(run(train({"--steps", "4", "--out", path("r.moescope")})).status, 0);
  const Result one = run({"figures", path("r.moescope"), "--figure", "ce_loss", "--json", "--at", "2"});
  ASSERT_EQ(one.status, 0) << one.err;
  const Json json = Json::parse(one.out);
  ASSERT_EQ(json["figures"].size(), 1u);
  EXPECT_EQ(json["figures"][0]["provenance"], "measured here");
  EXPECT_EQ(json["figures"][0]["values"][0]["step"], 2);
  EXPECT_FALSE(json.contains("routers")) << "only what was asked for";
  EXPECT_NE(run({"figures", path("r.moescope")}).out.find("ce_loss "), std::string::npos);
  const Result wrong = run({"figures", path("r.moescope"), "--figure", "loss"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_NE(wrong.err.find("there is no such figure; allowed: ce_loss"), std::string::npos) << wrong.err;
  EXPECT_EQ(run({"figures", path("r.moescope"), "--at", "9"}).status, 2);
}

TEST_F(CliCheck, FiguresAreMeansOfTheLastSteps) {
  ASSERT_EQ(run(train({"--steps", "4", "--out", path("r.moescope")})).status, 0);
  const auto loss = [&](const char* option, const char* number) {
    const Result result = run({"figures", path("r.moescope"), "--figure", "ce_loss", "--json", option, number});
    return Json::parse(result.out)["figures"][0]["values"][0]["value"].get<double>();
  };
  EXPECT_NEAR(loss("--last", "3"), (loss("--at", "1") + loss("--at", "2") + loss("--at", "3")) / 3, 1e-6);
  EXPECT_EQ(run({"figures", path("r.moescope"), "--last", "5"}).status, 2);
}

// Losses of a run by step, with noise of its seed, as JSON lines.
std::string noisy_log(unsigned seed, double added_from_step_100, double rate = 0.001) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::string log = fmt::format("{{\"lr\":{},\"batch_size\":8}}\n", rate);
  for (int step = 0; step < 200; ++step)
    log += fmt::format("{{\"step\":{},\"loss\":{}}}\n", step,
                       2 + 0.01 * normal(random) + (step >= 100 ? added_from_step_100 : 0));
  return log;
}

TEST_F(CliCheck, ARunIsComparedWithGoodRuns) {
  for (unsigned run = 0; run < 3; ++run) write("good" + std::to_string(run) + ".jsonl", noisy_log(run, 0));
  write("worse.jsonl", noisy_log(7, 0.5, 0.002));
  write("better.jsonl", noisy_log(8, -0.5));
  const std::vector<std::string> good = {path("good1.jsonl"), path("good2.jsonl")};
  const auto against = [&](const char* run, std::vector<std::string> options = {}) {
    std::vector<std::string> arguments{"check", path(run), "--against", good[0], good[1]};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return this->run(arguments);
  };
  EXPECT_EQ(against("good0.jsonl").status, 0);
  EXPECT_NE(against("good0.jsonl").out.find("Same: "), std::string::npos);
  const Result worse = against("worse.jsonl");
  EXPECT_EQ(worse.status, 1) << worse.err;
  EXPECT_NE(worse.out.find("Regressed: First outside the band of the 2 good runs at step 1"), std::string::npos)
      << worse.out;
  const Json json = Json::parse(against("worse.jsonl", {"--json"}).out);
  EXPECT_EQ(json["moescope_gate"], 1);
  EXPECT_EQ(json["verdict"], "regressed");
  EXPECT_EQ(json["failed"], true);
  EXPECT_EQ(json["exits"][0]["figure"], "ce_loss");
  EXPECT_NEAR(json["exits"][0]["steps"][0].get<int>(), 100, 5);
  EXPECT_EQ(json["settings"][0]["name"], "lr");
  EXPECT_EQ(json["settings"][0]["good"], Json({"0.001", "0.001"}));
  EXPECT_EQ(against("better.jsonl").status, 0);
  EXPECT_EQ(against("better.jsonl", {"--fail-on", "better"}).status, 1);
  EXPECT_EQ(Json::parse(against("better.jsonl", {"--json"}).out)["verdict"], "better");
  write("short.jsonl", "{\"step\":0,\"loss\":2}\n{\"step\":1,\"loss\":2}\n");
  EXPECT_EQ(against("short.jsonl").status, 0);
  EXPECT_EQ(against("short.jsonl", {"--fail-on", "regressed,too-early"}).status, 1);
}

TEST_F(CliCheck, TheGateRefusesWhatItCannotCompare) {
  write("good.jsonl", noisy_log(1, 0));
  write("late.jsonl", "{\"step\":1000,\"loss\":2}\n");
  write("nan.jsonl", noisy_log(2, 0) + "{\"step\":199,\"loss\":NaN}\n");
  const auto refusal = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "check");
    const Result result = run(arguments);
    EXPECT_EQ(result.status, 2) << result.out;
    return result.err;
  };
  const std::string good = path("good.jsonl");
  EXPECT_NE(refusal({path("late.jsonl"), "--against", good}).find("no step in common"), std::string::npos);
  EXPECT_NE(refusal({good, "--against", good}).find("is the run that is judged"), std::string::npos);
  EXPECT_NE(refusal({good, "--against", path("missing.jsonl")}).find("missing.jsonl"), std::string::npos);
  EXPECT_NE(refusal({good, "--against", good, "--fail-on", "severe"}).find("allowed: regressed"), std::string::npos);
  EXPECT_NE(refusal({good, "--against", good, "--follow"}).find("then compare with --against"), std::string::npos);
  EXPECT_NE(refusal({good, "--against", good, "--on-finding", "true"}).find("--on-finding"), std::string::npos);
  EXPECT_NE(refusal({good, "--engine", good, "--junit", path("x.xml")}).find("--engine"), std::string::npos);
  EXPECT_NE(refusal({good, "--follow", "--run", "x"}).find("checks all runs"), std::string::npos);
  EXPECT_NE(refusal({good, "--overwrite"}).find("needs --junit"), std::string::npos);
  write("empty.jsonl", "");
  EXPECT_NE(refusal({good, "--against", path("empty.jsonl")}).find("empty.jsonl"), std::string::npos);
  EXPECT_NE(refusal({path("empty.jsonl"), "--against", good}).find("empty.jsonl"), std::string::npos);
  std::string norms;
  for (int step = 0; step < 200; ++step) norms += fmt::format("{{\"step\":{},\"grad_norm\":{}}}\n", step, 1 + step % 7);
  write("norms.jsonl", norms);
  EXPECT_NE(refusal({path("norms.jsonl"), "--against", good}).find("no figure in common"), std::string::npos);
  EXPECT_NE(refusal({good, "--against", good, "--junit", good}).find("--junit"), std::string::npos);
  EXPECT_NE(refusal({good, "--until", "later", "--follow"}).find("`end`"), std::string::npos);
  ASSERT_EQ(run(train({"--steps", "50", "--compare", "seed=2", "--out", path("two.moescope")})).status, 0);
  EXPECT_NE(refusal({path("two.moescope"), "--against", good}).find("holds 2 runs; name the one"), std::string::npos);
  EXPECT_NE(refusal({path("two.moescope"), "--against", good, "--run", "x"}).find("named x"), std::string::npos);
  EXPECT_EQ(run({"check", path("two.moescope"), "--run", "n", "--against", path("two.moescope")}).status, 0);
  const Result good_nan = run({"check", good, "--against", path("nan.jsonl")});
  EXPECT_EQ(good_nan.status, 2);
  EXPECT_NE(good_nan.err.find("NaN or infinite"), std::string::npos) << good_nan.err;
}

TEST_F(CliCheck, TheNamedRunOfARecordingIsRead) {
  ASSERT_EQ(run(train({"--steps", "3", "--compare", "seed=2", "--out", path("two.moescope")})).status, 0);
  EXPECT_EQ(Json::parse(run({"check", path("two.moescope"), "--json"}).out)["runs"].size(), 2u);
  for (const std::string name : {"n", "n+seed-2"}) {
    const Json checked = Json::parse(run({"check", path("two.moescope"), "--json", "--run", name}).out)["runs"];
    ASSERT_EQ(checked.size(), 1u);
    EXPECT_EQ(checked[0]["name"], name);
    EXPECT_EQ(Json::parse(run({"figures", path("two.moescope"), "--json", "--run", name}).out)["run"], name);
  }
  for (const char* command : {"check", "figures"}) {
    const Result refused = run({command, path("two.moescope"), "--run", "x"});
    EXPECT_EQ(refused.status, 2);
    EXPECT_NE(refused.err.find("holds no run named x. There are: n, n+seed-2"), std::string::npos) << refused.err;
  }
}

TEST_F(CliCheck, ResultsAreWrittenForOtherTools) {
  const std::string collapsed = sample("unbalanced_bf16");
  EXPECT_EQ(run({"check", collapsed, "--junit", path("out.xml")}).status, 1);
  const std::string xml = read("out.xml");
  EXPECT_TRUE(xml.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites")) << xml;
  EXPECT_NE(xml.find("<failure message="), std::string::npos);
  EXPECT_NE(xml.find("<skipped message="), std::string::npos);
  EXPECT_EQ(run({"check", collapsed, "--junit", path("out.xml")}).status, 2) << "it exists";
  EXPECT_EQ(run({"check", collapsed, "--junit", path("out.xml"), "--overwrite"}).status, 1);
  const Result piped = run({"check", collapsed, "--junit", "-"});
  EXPECT_EQ(piped.out, xml);
  EXPECT_FALSE(piped.err.empty());
  EXPECT_FALSE(std::filesystem::exists("-"));
  EXPECT_EQ(run({"check", collapsed, "--junit", "-", "--json"}).status, 2);
  EXPECT_NE(run({"claims", "--out", "-"}).err.find("is not standard output here"), std::string::npos);
  const Result github = run({"check", collapsed, "--github"});
  EXPECT_NE(github.out.find("\n::error title="), std::string::npos) << github.out;
  write("bad&.jsonl", "{\"run_name\":\"<a>\\u0001\\n::error::b\"}\n{\"step\":0,\"loss\":NaN}\n");
  const Result odd = run({"check", path("bad&.jsonl"), "--github", "--json", "--junit", path("odd.xml")});
  EXPECT_NO_THROW(std::ignore = Json::parse(odd.out)) << odd.out;
  EXPECT_EQ(odd.err.find("\n::error::b"), std::string::npos) << odd.err;
  EXPECT_EQ(read("odd.xml").find("<a>"), std::string::npos) << "markup of a name is escaped";
  EXPECT_EQ(read("odd.xml").find('\x01'), std::string::npos);
}

TEST_F(CliCheck, ACommandGetsEachFindingOnce) {
  const std::string append = "cat >> '" + path("alerts") + "'";
  GrowingPipe log;
  const pid_t pid =
      start({"check", "-", "--follow", "--until", "end", "--on-finding", append + "; exit 3"}, log.as_standard_input());
  log.write("step: 9 loss: 3.5\nsaving checkpoint at iteration 9 to /kept\nstep: 10 loss: nan\nstep: 11 loss: nan\n");
  ASSERT_EQ(wait_for_lines("alerts", 1), 1);
  log.write("step: 12 loss: nan\nstep: 13 loss: nan\n");
  log.wait_until_read();
  log.end();
  const Result result = finish(pid);
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_NE(result.err.find("ended with status 3"), std::string::npos) << "said, but ends nothing: " << result.err;
  ASSERT_EQ(lines_of(path("alerts")).size(), 1u) << read("alerts");
  const Json alert = Json::parse(lines_of(path("alerts"))[0]);
  EXPECT_EQ(alert["kind"], "nan");
  EXPECT_EQ(alert["event"], "new");
  EXPECT_EQ(alert["checkpoint"]["step"], 9);
  EXPECT_NE(result.out.find("newest checkpoint before: step 9"), std::string::npos) << result.out;
}

TEST_F(CliCheck, TextOfALogIsNoCommand) {
  write("log.jsonl", "{\"run_name\":\"$(touch " + path("hacked") + ")'; touch " + path("hacked") +
                         "\"}\n{\"step\":0,\"loss\":NaN}\n");
  const Result result = run({"check", path("log.jsonl"), "--on-finding", "cat > '" + path("alert") + "'"});
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_FALSE(fs::exists(path("hacked")));
  EXPECT_EQ(Json::parse(read("alert"))["kind"], "nan");
  // A command that does not read its input, or does not exist, ends nothing.
  EXPECT_EQ(run({"check", path("log.jsonl"), "--on-finding", "true"}).status, 1);
  EXPECT_EQ(run({"check", path("log.jsonl"), "--on-finding", "/no/such/command"}).status, 1);
}

}  // namespace
}  // namespace moescope
