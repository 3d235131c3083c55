// Runs moescope-cli export --to checkpoint, which writes a run as a checkpoint, and moescope-cli run, which runs texts
// through the checkpoint.
#include <algorithm>
#include <cmath>

#include "core/frame/model_scans.h"
#include "core/recording/recording.h"
#include "tests/support/cli_fixture.h"

namespace moescope {
namespace {

class CliRun : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    Result trained = run(train({"--steps", "2", "--checkpoint", path("kept")}));
    ASSERT_EQ(trained.status, 0) << trained.err;
    exported_ = run({"export", path("kept") + "/2/n.safetensors", "--to", "checkpoint", "-o", path("model")});
    ASSERT_EQ(exported_.status, 0) << exported_.err;
    write("prose.txt", "The old king sees the river, and the river is deep.");
    write("code.txt", "int sum(int x, int y) { return x + y; }");
  }
  std::vector<std::string> run_model(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"run", path("model")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  Result exported_;
};

TEST_F(CliRun, TextsBecomeARecordingWhoseStepsAreBatches) {
  const Result result = run(run_model({"--text", path("prose.txt"), "--text", path("code.txt"), "--length", "16",
                                       "--batch", "3", "--write", "5", "-o", path("r.moescope")}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("model: deepseek_v3, 2 layers (1 with experts), 4 experts, top 2, "), std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("for 1,000 tokens, estimated from one layer"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\nprose "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\nlayer 1: "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("continuation of code (16 tokens read at "), std::string::npos) << result.out;
  const RecordingReader recording(path("r.moescope"));
  ASSERT_EQ(recording.runs().size(), 1u);
  const RunInfo& info = recording.runs()[0];
  EXPECT_EQ(info.name, "model");
  EXPECT_EQ(info.domains, (std::vector<std::string>{"prose", "code"}));
  const auto history = recording.load(0);
  // The prose has four pieces of up to 16 bytes, the code three. A step takes three pieces; the texts alternate.
  EXPECT_EQ(history->count(), 3);
  const auto frame = history->frame_at(0);
  ASSERT_EQ(frame->routers.size(), 1u);
  std::uint32_t slots = 0;
  for (const std::uint32_t n : frame->routers[0].tokens_per_expert) slots += n;
  EXPECT_EQ(slots, 3u * 16 * 2);
  std::int64_t step = 0;
  const auto text = history->text_at(TextKind::batch, step);
  ASSERT_TRUE(text);
  EXPECT_EQ(text->text, "The old king see");
  EXPECT_EQ(text->domain, "prose");
  EXPECT_EQ(text->layers.at(0).experts_TK.size(), 16u * 2);
}

// With learning rates of 0 no weight changes. The checkpoint has the initial weights, so the first losses are equal.
TEST_F(CliRun, TrainingGoesOnFromACheckpoint) {
  const auto loss = [](const Result& result) {
    const std::size_t at = result.out.find("\"ce_loss\":");
    EXPECT_NE(at, std::string::npos) << result.err;
    return at == std::string::npos ? NAN : std::stod(result.out.substr(at + 10));
  };
  const Result first =
      run(train({"--set", "optimizer.lr=0", "--set", "optimizer.lr_min=0", "--set", "router.bias_update_rate=0",
                 "--steps", "1", "--checkpoint", path("still"), "--jsonl", "-"}));
  ASSERT_EQ(run({"export", path("still") + "/1/n.safetensors", "--to", "checkpoint", "-o", path("start")}).status, 0);
  write("data.toml", "[data]\nbatch = 2\nseq = 16\n");
  const std::vector<std::string> from{"train", "--from", path("start"), "--steps", "1", "--config"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), from.begin(), from.end());
    return run(more);
  };
  EXPECT_NEAR(loss(with({path("data.toml"), "--jsonl", "-"})), loss(first), 1e-5);
  const Result refused = with({path("data.toml"), "--set", "model.dim=64"});
  EXPECT_EQ(refused.status, 2);
  const std::string file = path("start") + "/config.json";
  EXPECT_NE(refused.err.find("model.dim: is 64, but 'hidden_size' of " + file + " requires 32"), std::string::npos)
      << refused.err;
  EXPECT_NE(run({"train", "--from", path("start"), "--preset", "nano"}).status, 0);
}

TEST_F(CliRun, OperandsAreRankedByWhatARecipeDoes) {
  const Result result =
      run(run_model({"--text", path("prose.txt"), "--text", path("code.txt"), "--length", "16", "--recipe", "mxfp4",
                     "--twin-pieces", "3", "--quiet", "-o", path("r.moescope")}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(
      result.out.find("one operand at a time in mxfp4, all else in FP32, 95 % intervals over 3 pieces of text:\n"),
      std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("\nall operands "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\nlayer 1, experts, x "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\nmxfp8_nvidia "), std::string::npos) << result.out;
  EXPECT_EQ(run(run_model({"--text", path("prose.txt"), "--recipe", "fp3"}))
                .err.find("moescope-cli: error: --recipe: is \"fp3\"; allowed: fp32, bf16, "),
            0u);
}

TEST_F(CliRun, APlanHasAFormatForEachClassAndExpert) {
  const auto plan = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--text", path("prose.txt"), "--text", path("code.txt"), "--length", "16", "--quiet"});
    return run(run_model(more));
  };
  const Result result = plan({"--plan-bits", "6", "--plan-keep", "router_gate", "--write-plan", path("plan.json")});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("\nlayer 1, router_gate "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\nall weights in nvfp4 "), std::string::npos) << result.out;
  const nlohmann::json written = nlohmann::json::parse(read("plan.json"));
  EXPECT_LE(written["plan"]["bits_per_weight"], 6);
  EXPECT_EQ(written["compressed_tensors"]["quant_method"], "compressed-tensors");
  write("plan.toml", read("nano.toml") + written["moescope"].get<std::string>());
  EXPECT_EQ(run({"train", "--config", path("plan.toml"), "--steps", "1", "--out", path("p.moescope")}).status, 0);
  EXPECT_EQ(plan({"--plan-bits", "nan"}).status, 2);
  EXPECT_EQ(
      plan({"--plan-bits", "6", "--write-plan", path("plan.json")}).err.find("moescope-cli: error: --write-plan "), 0u);
  EXPECT_EQ(plan({"--plan-bits", "4"}).err,
            "moescope-cli: error: 4 bits per weight are too few: the smallest plan has 4.25, mxfp4 in all "
            "weights\n");
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--plan-bits", "6", "--plan-keep", "router"},
                                                {"--plan-keep", "router_gate"},
                                                {"--write-plan", path("other.json")},
                                                {"--plan-bits", "17"}}) {
    const Result refused = plan(wrong);
    EXPECT_EQ(refused.status, 2) << refused.err;
    EXPECT_EQ(refused.err.find("moescope-cli: error: --"), 0u) << refused.err;
  }
}

TEST_F(CliRun, ExpertsAreRankedByWhatTheirAbsenceDoes) {
  const Result result =
      run(run_model({"--text", path("prose.txt"), "--text", path("code.txt"), "--length", "16", "--without-each-expert",
                     "--twin-pieces", "2", "--quiet", "-o", path("r.moescope")}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("one expert left out at a time, 95 % intervals over 2 pieces of text:\n"),
            std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("on code"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\nexperts removed "), std::string::npos) << result.out;
  const std::vector<Marker> markers = RecordingReader(path("r.moescope")).markers(0);
  const auto marker = std::ranges::find(markers, kExpertsMarker, &Marker::kind);
  ASSERT_NE(marker, markers.end());
  EXPECT_EQ(expert_scan_in(marker->text)->experts.size(), 4u);
  const auto similarity = std::ranges::find(markers, kSimilarityMarker, &Marker::kind);
  ASSERT_NE(similarity, markers.end());
  const LayerSimilarity layer = similarity_in(similarity->text)->layers.at(0);
  EXPECT_EQ(layer.experts(), 4);
  EXPECT_NE(result.out.find(" " + std::to_string(layer.most_similar(0)) + ": "), std::string::npos) << result.out;
  for (const char* expert : {"\nlayer 1, expert 0 ", "\nlayer 1, expert 3 "})
    EXPECT_NE(result.out.find(expert), std::string::npos) << result.out;
}

TEST_F(CliRun, TwoCheckpointsAreComparedOnTheSameTexts) {
  ASSERT_EQ(run(train({"--steps", "4", "--checkpoint", path("later")})).status, 0);
  ASSERT_EQ(run({"export", path("later") + "/4/n.safetensors", "--to", "checkpoint", "-o", path("other")}).status, 0);
  const std::vector<std::string> texts{"--text", path("prose.txt"), "--text", path("code.txt"), "--length", "16"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), texts.begin(), texts.end());
    more.insert(more.begin(), {"--with", path("other")});
    return run(run_model(more));
  };
  const Result result = with({"-o", path("both.moescope")});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("\nweights differ in 4 of 4 experts: layer 1 expert "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\ntext "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("KL divergence of the predictions, 1e-3 nats/token"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("other experts in layer 1, % of the tokens"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\nother against model: "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find(" nats/token over 7 batches of text"), std::string::npos) << result.out;
  const RecordingReader recording(path("both.moescope"));
  ASSERT_EQ(recording.runs().size(), 2u);
  EXPECT_EQ(recording.runs()[1].name, "other");
  const auto b = recording.load(1);
  EXPECT_EQ(b->count(), 7);
  EXPECT_GT(b->value_at(Metric::fp32_kl, kWholeRun, 6), 0);
  EXPECT_FALSE(b->flip_frame_at(6)->flips.empty());
  const Result repeated = run(run_model({"--with", path("model"), "--text", path("prose.txt"), "--length", "16"}));
  EXPECT_NE(repeated.out.find("\ntext "), std::string::npos) << repeated.out << repeated.err;
  EXPECT_EQ(repeated.out.find("0.00000"), std::string::npos) << "no gap is 0, without a sign\n" << repeated.out;
  EXPECT_EQ(with({"--recipe", "mxfp4"}).err,
            "moescope-cli: error: --with: cannot be combined with --write, --recipe, --plan-bits or "
            "--without-each-expert\n");
  std::string tokens = read("other/tokenizer.json");
  tokens.replace(tokens.find("\"A\""), 3, "\"\u0100\"");
  write("other/tokenizer.json", tokens);
  EXPECT_EQ(with({}).err.find("moescope-cli: error: the tokenizers differ: "), 0u) << with({}).err;
}

TEST_F(CliRun, WrongInputIsNamed) {
  EXPECT_EQ(run(run_model({})).err, "moescope-cli: error: no text is given; use --text or --ids\n");
  write("ids.txt", "1 2 three");
  EXPECT_EQ(
      run(run_model({"--ids", path("ids.txt")})).err,
      "moescope-cli: error: " + path("ids.txt") + ": holds 't'; allowed: whole numbers between blanks and commas\n");
  write("ids.txt", "1, 2, 300");
  EXPECT_EQ(run(run_model({"--ids", path("ids.txt"), "--quiet"})).err,
            "moescope-cli: error: token 2 is 300; allowed: 0 to 255\n");
  std::string config = read("model/config.json");
  config.insert(config.find('{') + 1, "\"attn_logit_softcapping\": 30, ");
  write("model/config.json", config);
  const Result unknown = run(run_model({"--text", path("prose.txt")}));
  EXPECT_EQ(unknown.status, 2);
  EXPECT_EQ(unknown.err, "moescope-cli: error: " + path("model/config.json") +
                             ": 'attn_logit_softcapping' is 30, and the meaning of this key is not known\n");
}

TEST_F(CliRun, NoCheckpointIsReplacedUnasked) {
  const std::vector<std::string> command = {"export",     path("kept") + "/2/n.safetensors", "--to", "checkpoint", "-o",
                                            path("model")};
  const Result refused = run(command);
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.err, "moescope-cli: error: --out " + path("model") +
                             ": holds config.json; choose another folder, or give --overwrite to replace it\n");
  std::vector<std::string> overwriting = command;
  overwriting.push_back("--overwrite");
  EXPECT_EQ(run(overwriting).status, 0);
}

}  // namespace
}  // namespace moescope
