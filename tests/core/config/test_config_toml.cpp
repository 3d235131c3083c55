// Configs as TOML: written and read back, and the other things that a file may contain.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/config/config_field.h"
#include "core/config/config_toml.h"
#include "core/config/run_config.h"
#include "tests/support/configs.h"

namespace moescope {
namespace {

void expect_equal(const RunConfig& a, const RunConfig& b) {
  for (const ConfigField& field : config_fields()) EXPECT_EQ(field.get(a), field.get(b)) << field.key;
}

TEST(Toml, EveryFieldSurvivesWritingAndReading) {
  for (const ConfigField& field : config_fields()) {
    RunConfig config;
    field.set(config, other_value(field));
    const ParsedConfig read = parse_config(to_toml(config), "x.toml");
    expect_equal(read.config, config);
  }
}

TEST(Toml, AwkwardNumbersAndTextSurvive) {
  RunConfig config;
  config.seed = 9007199254740991;
  config.optimizer.lr = 0.1 + 0.2;
  config.optimizer.lr_min = 5e-324;
  config.optimizer.eps = 1e-8;
  config.model.rope_theta = 1e6;
  config.data.path = "a \"quoted\" \\ path # with [brackets] and \xC3\xBC";
  const ParsedConfig read = parse_config(to_toml(config), "x.toml");
  EXPECT_EQ(all_text(read.problems), "");
  expect_equal(read.config, config);
}

TEST(Toml, IsCommentedAndReadable) {
  const std::string text = to_toml(RunConfig{});
  for (const ConfigField& field : config_fields())
    EXPECT_EQ(text.find(field.help.substr(0, 20)) == std::string::npos, field.derived) << field.key;
  EXPECT_NE(text.find("[router]"), std::string::npos);
  EXPECT_NE(text.find("# Allowed: 1 to 64 experts; can be changed while it trains.\ntop_k = 2\n"), std::string::npos);
}

TEST(ParseConfig, ReportsAllProblemsAtOnceWithTheirLines) {
  const ParsedConfig parsed = parse_config(R"(name = "bad"
sed = 3
[model]
dim = "wide"
n_experts = 16
[router]
top_k = 20
topk = 4
lr = 1e-3
[optimizer]
lr = 7
warmup_steps = 5000
[rooter]
x = 1
)",
                                           "run.toml");
  EXPECT_EQ(all_text(parsed.problems),
            "run.toml:2: sed: no such key, did you mean seed?\n"
            "run.toml:4: model.dim: is \"wide\"; allowed: a whole number, 8 to 8192\n"
            "run.toml:8: router.topk: no such key, did you mean router.top_k?\n"
            "run.toml:9: router.lr: no such key, did you mean optimizer.lr?\n"
            "run.toml:11: optimizer.lr: is 7; allowed: 0 to 1\n"
            "run.toml:13: rooter: no such section; allowed: [model], [router], [optimizer], [precision], [data], "
            "[parallel], [telemetry]\n"
            "run.toml:7: router.top_k: top_k is 20, but there are 16 experts: choose 1 to 16\n"
            "run.toml:12: optimizer.warmup_steps: warmup_steps is 5000, but the schedule has only 2000 steps "
            "(total_steps): choose 0 to 2000\n");
}

TEST(ParseConfig, RuleIsReportedAtTheLineThatWasWritten) {
  // The second text does not set ranks, so that its problem is reported at the line of n_experts.
  const ParsedConfig parsed =
      parse_config("[model]\n\nn_experts = 8\n[parallel]\nranks = 4\n[router]\ntop_k = 9\n", "f");
  ASSERT_EQ(parsed.problems.size(), 1u);
  EXPECT_EQ(parsed.problems[0].line, 7);
  const ParsedConfig implied = parse_config("[model]\n\nn_experts = 12\n", "f");
  ASSERT_EQ(implied.problems.size(), 1u);
  EXPECT_EQ(implied.problems[0].text(),
            "f:3: model.n_experts: ranks is 8, but the 12 experts must spread evenly: choose a divisor of 12");
}

TEST(ParseConfig, WrongTypesAreRefused) {
  const ParsedConfig parsed = parse_config("seed = [1]\n[router]\ntop_k = {a = 1}\nn_groups = 1979-05-27\n", "f");
  EXPECT_EQ(all_text(parsed.problems),
            "f:1: seed: is an array; allowed: one value\nf:3: router.top_k: is a section; allowed: one value\n"
            "f:4: router.n_groups: is a date or time; allowed: a number, text, true or false\n");
  EXPECT_NE(all_text(parse_config("model = 3\n", "f").problems), "");
  EXPECT_NE(all_text(parse_config("[router.top_k]\nx = 1\n", "f").problems), "");
  EXPECT_NE(all_text(parse_config("[model.sub]\nx = 1\n", "f").problems), "");
}

TEST(ParseConfig, SyntaxErrorsHaveALine) {
  const ParsedConfig parsed = parse_config("name = \"x\"\n[model\ndim = 3\n", "broken.toml");
  ASSERT_EQ(parsed.problems.size(), 1u);
  EXPECT_EQ(parsed.problems[0].line, 2);
  EXPECT_NE(parsed.problems[0].text().find("broken.toml:2: not TOML: "), std::string::npos);
  EXPECT_FALSE(parse_config(std::string(1000, '['), "f").problems.empty());
  EXPECT_FALSE(parse_config(std::string("a = \"\0\"", 8), "f").problems.empty());
  EXPECT_FALSE(parse_config("seed = 1\nseed = 2\n", "f").problems.empty());
  EXPECT_FALSE(parse_config("seed = 99999999999999999999\n", "f").problems.empty());
}

TEST(LoadConfig, FilesThatCannotBeRead) {
  EXPECT_EQ(all_text(load_config("/nonexistent/x.toml").problems), "/nonexistent/x.toml: no such file\n");
  EXPECT_EQ(all_text(load_config("/tmp").problems), "/tmp: is a folder, expected a TOML file\n");
  EXPECT_EQ(all_text(load_config("/dev/zero").problems), "/dev/zero: is a device, expected a file\n");
}

TEST(ParseConfig, TwinsAreTheRunWithTheirDifferences) {
  const ParsedConfig parsed = parse_config(
      "preset = \"nano\"\nseed = 4\n[[compare]]\nname = \"other\"\nrouter.top_k = 3\n[[compare]]\nseed = 5\n", "f");
  EXPECT_EQ(all_text(parsed.problems), "");
  EXPECT_EQ(parsed.config.model.dim, load_preset("nano").config.model.dim);
  EXPECT_EQ(parsed.config.seed, 4);
  ASSERT_EQ(parsed.twins.size(), 2u);
  EXPECT_EQ(parsed.twins[0].name, "other");
  EXPECT_EQ(parsed.twins[0].router.top_k, 3);
  EXPECT_EQ(parsed.twins[0].seed, 4);
  EXPECT_EQ(parsed.twins[1].name, "nano+seed-5");
}

TEST(ParseConfig, TwinsThatCannotBe) {
  const auto problems = [](const char* text) { return all_text(parse_config(text, "f").problems); };
  EXPECT_EQ(problems("[[compare]]\nname = \"x\"\n"),
            "f:1: compare 1: has the same settings as the run that it is compared with\n");
  EXPECT_EQ(problems("[[compare]]\ndata.batch = 2\n"),
            "f:2: data.batch: runs that are compared read the same batches\n");
  EXPECT_EQ(problems("[[compare]]\nrouter.top_k = 17\n"),
            "f:2: router.top_k: top_k is 17, but there are 16 experts: choose 1 to 16\n");
  EXPECT_EQ(problems("[[compare]]\nrouter.topk = 9\n"), "f:2: router.topk: no such key, did you mean router.top_k?\n");
  EXPECT_EQ(problems("[[compare]]\npreset = \"nano\"\n"), "f:2: preset: no such key, did you mean seed?\n");
  EXPECT_EQ(problems("compare = 3\n"), "f:1: compare: must be written as [[compare]]\n");
  EXPECT_EQ(problems("preset = \"huge\"\n").substr(0, 39), "f:1: preset: is \"huge\"; allowed: nano, ");
  EXPECT_EQ(problems("preset = 3\n"), "f:1: preset: must be text in quotes\n");
  std::string twins;
  for (int seed = 2; seed < 18; ++seed) twins += "[[compare]]\nseed=" + std::to_string(seed) + "\n";
  EXPECT_EQ(problems(twins.c_str()), "");
  twins += "[[compare]]\nseed=18\n";
  EXPECT_EQ(problems(twins.c_str()), "f:1: compare: holds 17 twins; allowed: 16\n");
}

}  // namespace
}  // namespace moescope
