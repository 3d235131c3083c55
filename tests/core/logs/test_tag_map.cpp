#include <gtest/gtest.h>

#include <stdexcept>

#include "core/logs/tag_map.h"
#include "tests/support/processor_time.h"

namespace moescope {
namespace {

// Returns the meaning of a name in the built-in table: "ce_loss", "tokens_per_expert of layer 3, expert 7". An unknown
// name gives an empty text.
std::string meaning_of(const std::string& name) {
  const auto found = TagMap::built_in().find(name);
  if (!found) return {};
  std::string means = found->rule->column;
  if (found->layer >= 0) means += " of layer " + std::to_string(found->layer);
  if (found->expert >= 0) means += ", expert " + std::to_string(found->expert);
  return means;
}

TEST(TagMap, SpellingsOfOneNameMeanTheSame) {
  for (const char* name : {"loss", "Loss", "train/loss", "train_loss", "Train/Loss", "train.loss", "training/loss",
                           "lm loss", "lm_loss", "ce_loss", "loss/train", "loss_metrics/global_avg_loss"})
    EXPECT_EQ(meaning_of(name), "ce_loss") << name;
  for (const char* name : {"eval_loss", "eval/loss", "val_loss", "validation/loss", "lm loss validation", "Loss/val"})
    EXPECT_EQ(meaning_of(name), "val_loss") << name;
  for (const char* name :
       {"grad_norm", "grad-norm", "grad norm", "Grad Norm", "train/grad_norm", "grad_2.0_norm_total"})
    EXPECT_EQ(meaning_of(name), "grad_norm") << name;
  for (const char* name : {"lr", "learning-rate", "learning rate", "train/learning_rate", "lr-AdamW"})
    EXPECT_EQ(meaning_of(name), "lr") << name;
  for (const char* name : {"tokens_per_expert/layer_3", "tokens_per_expert/layer3", "moe/layer_3/tokens_per_expert",
                           "layers.3.moe.tokens_per_expert", "model.layers.3.mlp.tokens_per_expert_E"})
    EXPECT_EQ(meaning_of(name), "tokens_per_expert of layer 3") << name;
  for (const char* name : {"tokens_per_expert/layer_3/expert_7", "moe_layer3_expert7_tokens",
                           "moe-expert/x_tokens_per_expert_layer3_expert7"})
    EXPECT_EQ(meaning_of(name), "tokens_per_expert of layer 3, expert 7") << name;
  for (const char* name : {"step", "_step", "global_step", "train/global_step", "current_steps", "iteration"})
    EXPECT_EQ(meaning_of(name), "step") << name;
}

TEST(TagMap, WhatOnlyLooksLikeANameIsNotTaken) {
  for (const char* name : {"train/train_loss", "moe/max_tokens_per_expert", "layers.3.moe.mean_tokens_per_expert",
                           "loss scale", "loss_metrics/global_max_loss"})
    EXPECT_EQ(meaning_of(name), "ignored") << name;
  for (const char* name : {"lossy", "epoch", "layer_3", ""}) EXPECT_EQ(meaning_of(name), "") << name;
  const TagMap back = TagMap::parse("layer_offset = -1\n[[tag]]\npattern = \"l{layer}\"\nmeans = \"cv\"\n", "t.toml");
  EXPECT_EQ(back.find("l1")->layer, 0);
  EXPECT_FALSE(back.find("l0")) << "no layer is before the first";
}

// Of several names for one figure, that of the first pattern is shown: the mean of a training is not a step's loss.
TEST(TagMap, TheTableSaysWhichOfTwoNamesIsShown) {
  const auto place = [](const char* name) { return TagMap::built_in().find(name)->rule->place; };
  EXPECT_LT(place("loss"), place("train_loss"));
  EXPECT_LT(place("ce_loss"), place("loss"));
  EXPECT_LT(place("lm loss"), place("loss"));
}

TEST(TagMap, StarsTakeNoTime) {
  const TagMap map = TagMap::parse("[[tag]]\npattern = \"*a*a*a*b\"\nmeans = \"lr\"\n", "t.toml");
  const double begin = processor_seconds();
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(map.find(std::string(500, 'a')));
  EXPECT_LT(processor_seconds() - begin, 2);
  EXPECT_TRUE(map.find("xaxaxaxbxb"));
  EXPECT_FALSE(map.find(std::string(1 << 20, 'a') + "b")) << "no name is as long";
}

TEST(TagMap, ProblemsOfPatternsAreNamed) {
  const TagMap map = TagMap::parse(
      "[[tag]]\npattern = \"*x{layer}/e{expert}\"\nmeans = \"utilization\"\n[[tag]]\npattern = \"a*b*\"\nmeans = "
      "\"lr\"\n",
      "t.toml");
  const auto found = map.find("model/x12/e7");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->layer, 12);
  EXPECT_EQ(found->expert, 7);
  EXPECT_TRUE(map.find("a--b-"));
  EXPECT_FALSE(map.find("x12/e"));
  EXPECT_FALSE(map.find("x12/e7/more"));
  EXPECT_TRUE(TagMap::built_in().find("moe_expert_utilization/layer_3_expert_12"));
  for (const char* known : {"lm loss validation", "max_attention_logit", "global_load_balancing_loss",
                            "microbatch_wise_load_balance_loss/mean", "moe/load_balancing_loss_layer_3",
                            "rollout/moe/max_vio/layer_7", "actor/grad_norm", "train/learning_rate", "eval/loss"})
    EXPECT_TRUE(TagMap::built_in().find(known)) << known;
  for (const auto& [toml, message] : std::vector<std::pair<const char*, const char*>>{
           {"[[tag]]\npattern = \"x\"\nmeans = \"los\"\n",
            "t.toml:3: tag 1.means: is \"los\"; allowed: tokens_per_expert"},
           {"[[tag]]\npattern = \"x{layer}\"\nmeans = \"lr\"\n", "have no {layer}"},
           {"[[tag]]\nmeans = \"lr\"\n", "t.toml:1: tag 1.pattern: is missing"},
           {"[[tags]]\npattern = \"x\"\n",
            "t.toml:1: tags: no such key; allowed: assumed_because, layer_offset, options, printed_steps, program, "
            "settings, "
            "tag"},
           {"program = \"x\"\n", "holds no [[tag]]"},
           {"[[tag]]\npattern = \"x\"\nmeans = \"lr\"\nscale = \"2\"\n",
            "t.toml:4: tag 1.scale: must be a number other than 0"},
           {"[[tag]]\npattern = \"x\"\nmeans = \"lr\"\nscale = inf\n",
            "t.toml:4: tag 1.scale: must be a number other than 0"},
           {"[[tag]]\npattern = [\"x\", 2]\nmeans = \"lr\"\n", "t.toml:2: tag 1.pattern: must be a list of texts"},
           {"[[tag]]\npattern = []\nmeans = \"lr\"\n", "t.toml:2: tag 1.pattern: must not be empty"},
           {"[[tag]]\npattern = \"x\"\nmeans = \"lr\"\nlayers = \"as number\"\n",
            "layers: is \"as number\"; allowed: as text"},
           {"layer_offset = 2000\n[[tag]]\npattern = \"x\"\nmeans = \"lr\"\n", "whole number from -1000 to 1000"},
           {"[[tag]\n", "t.toml:1: not TOML: "}}) {
    try {
      TagMap::parse(toml, "t.toml");
      ADD_FAILURE() << toml;
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace moescope
