// The account of what was read: names, what they were taken for, and what was left out.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/files/sqlite.h"
#include "core/frame/router_stats.h"
#include "core/logs/account.h"
#include "core/logs/file_kind.h"
#include "core/logs/lines/import_jsonl.h"
#include "core/logs/open_runs.h"
#include "tests/support/event_bytes.h"
#include "tests/support/problem_of.h"
#include "tests/support/says.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

class Accounts : public testing::Test {
 protected:
  Accounts() : root(fs::temp_directory_path() / ("moescope_account_" + std::to_string(::getpid()))) {}
  ~Accounts() override { fs::remove_all(root); }

  std::string write(const char* name, const std::string& text) const {
    write_bytes(root / name, text);
    return (root / name).string();
  }
  static OpenedRuns open(const std::string& path, const ImportOptions& options = {}) {
    return open_runs({path}, options, 4);
  }
  static AccountRow row(const ImportAccount& account, const std::string& name) {
    const auto found = std::ranges::find(account.rows, name, &AccountRow::name);
    EXPECT_NE(found, account.rows.end()) << name << " in\n" << account_text(account);
    return found == account.rows.end() ? AccountRow() : *found;
  }
  // Shares of two layers with four experts under names that no program has, and a loss in bits.
  static std::string invented_names(int steps) {
    std::string text;
    for (int step = 0; step < steps; ++step) {
      text += "{\"tick\":" + std::to_string(step) + ",\"nll_bits\":" + std::to_string(3.0 - 0.001 * step);
      for (int layer = 0; layer < 2; ++layer)
        for (int expert = 0; expert < 4; ++expert)
          text += ",\"blk" + std::to_string(layer) + ".e" + std::to_string(expert) +
                  ".frac\":" + (expert == step % 4 ? "0.4" : "0.2");
      text += "}\n";
    }
    return text;
  }
  fs::path root;
};

TEST_F(Accounts, EveryNameHasARowWithItsValuesAndMeaning) {
  const OpenedRuns opened = open(write("run.jsonl", R"({"num_experts":2,"num_experts_per_tok":1}
{"step":10,"loss":2.5,"lr":0.1,"gpu_mem":70,"note":"warm-up","moe/layer_3/tokens_per_expert":[3,5]}
{"step":20,"loss":0,"lr":0.2,"gpu_mem":75,"moe/layer_3/tokens_per_expert":[4,4]}
)"));
  ASSERT_EQ(opened.accounts.size(), 1u);
  const ImportAccount& account = opened.accounts[0];
  const AccountRow loss = row(account, "loss");
  EXPECT_EQ(loss.means, "ce_loss");
  EXPECT_EQ(loss.meaning, "Cross-entropy loss");
  EXPECT_EQ(loss.unit, "nats/token");
  EXPECT_EQ(loss.certainty, Certainty::known_name);
  EXPECT_TRUE(loss.is_shown);
  EXPECT_EQ(std::pair(loss.values, loss.place), (std::pair<std::int64_t, std::string>(2, "line 2")));
  EXPECT_EQ(std::pair(loss.first_step, loss.last_step), (std::pair<std::int64_t, std::int64_t>(10, 20)));
  EXPECT_EQ(std::pair(loss.lowest, loss.highest), (std::pair(0.0, 2.5)));
  EXPECT_NE(loss.question.find("1 of 2 values is exactly 0"), std::string::npos) << loss.question;
  EXPECT_EQ(row(account, "moe/layer_3/tokens_per_expert").values, 4);
  EXPECT_FALSE(row(account, "gpu_mem").is_shown);
  EXPECT_EQ(row(account, "gpu_mem").certainty, Certainty::unknown);
  EXPECT_EQ(row(account, "note").reason, "text, no number");
  EXPECT_EQ(account.experts.value, "2");
  EXPECT_EQ(account.experts.source, "stated in the log");
  EXPECT_EQ(account.top_k.value, "1");
  EXPECT_TRUE(account.assumption().empty());
}

TEST_F(Accounts, SumsAmongTheLoadsAreAQuestion) {
  const auto question = [&](const std::string& settings, const std::vector<std::string>& loads) {
    std::string text = settings;
    for (std::size_t step = 0; step < loads.size(); ++step)
      text += "{\"step\":" + std::to_string(step) + ",\"tokens_per_expert/layer_1\":[" + loads[step] + "]}\n";
    const ImportAccount account = open(write("run.jsonl", text)).accounts.at(0);
    EXPECT_EQ(account.to_confirm() > 0, !account.experts.question.empty() || !account.top_k.question.empty());
    return account.experts.question + account.top_k.question;
  };
  EXPECT_EQ(question("", {"1,2,3,6", "2,2,5,9"}),
            "the last of the 4 loads of a layer is the sum of the others: are there 3 experts?");
  EXPECT_EQ(question("", {"6,1,2,3"}),
            "the first of the 4 loads of a layer is the sum of the others: are there 3 experts?");
  EXPECT_EQ(question("", {"1,2,3,4,3,7", "5,0,1,4,5,5"}),
            "the last 2 of the 6 loads of a layer are sums of the others: are there 4 experts?");
  EXPECT_EQ(question("", {"1,2,3,6", "2,2,5,8"}), "");  // chance
  EXPECT_EQ(question("", {"0,0,0,0", "5,0,1,4"}), "");
  EXPECT_EQ(question("{\"num_experts\":3}\n", {"1,2,3,5"}), "the log states 3 experts, but has loads of 4");
  EXPECT_EQ(question("{\"top_k\":6}\n", {"1,2,4,5"}), "there are only 4 experts");
  EXPECT_EQ(question("{\"top_k\":2}\n", {"1,2,4,6", "1,1,1,1"}),
            "the sums of 1 of 2 loads are no multiple of it: were tokens dropped?");
}

TEST_F(Accounts, ValuesOutsideTheirRangeAreAQuestion) {
  const OpenedRuns opened = open(write("run.jsonl", R"({"num_experts_per_tok":2}
{"step":1,"loss":2,"lr":-0.1,"grad_norm":1,"dead_fraction/layer_1":12.5,"margin/layer_1":-0.5,"max_vio/layer_1":-0.25,"router/expert_bias":[-1,1,0],"moe/layer_1/expert_utilization":[0.4499,1.1001,1.45]}
)"));
  const ImportAccount& account = opened.accounts.at(0);
  EXPECT_EQ(row(account, "lr").question, "the lowest is -0.1: it is never negative");
  EXPECT_EQ(row(account, "max_vio/layer_1").question, "the lowest is -0.25: it is never negative");
  EXPECT_EQ(row(account, "dead_fraction/layer_1").question, "the highest is 12.5: no share is above 1");
  for (const char* name : {"loss", "grad_norm", "margin/layer_1", "router/expert_bias"})
    EXPECT_EQ(row(account, name).question, "") << name;
  EXPECT_EQ(account.top_k.question, "");  // loads of ratios have no exact sum
}

TEST_F(Accounts, AnUnknownNameOfALossIsAQuestion) {
  const auto questions = [&](const std::string& values) {
    const OpenedRuns opened = open(write("run.jsonl", "{\"step\":1,\"lr\":0.1," + values + "}\n"));
    std::string question_texts;
    for (const AccountRow& row : opened.accounts.at(0).rows)
      if (!row.question.empty()) question_texts += row.name + ' ' + row.means + ';';
    return question_texts;
  };
  EXPECT_EQ(questions(R"("moe_aux":1,"nll_bits":3,"my_loss":2)"), "my_loss ce_loss;");
  EXPECT_EQ(questions(R"("loss":2,"nll_bits":3)"), "");
  EXPECT_EQ(questions(R"("loss_scale":65536,"test_loss":2,"balancing_loss_x":1)"), "");
}

TEST_F(Accounts, ALogWithoutAKnownStepAsksForIt) {
  std::string text;
  for (const char* tick : {"0", "2", "4", "6"}) text += std::string("{\"tick\":") + tick + ",\"nll\":3.5,\"lr\":3}\n";
  try {
    open(write("run.jsonl", text));
    FAIL() << "no name is the step";
  } catch (const RefusedLog& refused) {
    const AccountRow tick = row(refused.account, "tick");
    EXPECT_EQ(std::pair(tick.means, tick.question), std::pair(std::string("step"), std::string("is this the step?")));
    EXPECT_EQ(tick.values, 4) << "the first line has no settings";
    EXPECT_EQ(row(refused.account, "nll").proposal().means, "ce_loss");
    EXPECT_EQ(row(refused.account, "lr").reason, "its step is not known");
  }
}

TEST_F(Accounts, WhatNamesAreLikelyToBeIsProposed) {
  const std::string path =
      write("run.jsonl",
            R"({"tick":0,"nll_bits":3.5,"lr_now":0.1,"tok_seen":80,"batch_toks":80,"val_nll":4,"b0e0":0.25,"b0e1":0.75}
{"tick":5,"nll_bits":3.4,"lr_now":0.1,"tok_seen":480,"batch_toks":80,"val_nll":4,"b0e0":0.5,"b0e1":0.5}
{"tick":10,"nll_bits":3.3,"lr_now":0.1,"tok_seen":880,"batch_toks":80,"val_nll":4,"b0e0":0.75,"b0e1":0.25}
)");
  ImportOptions options;
  try {
    open(path);
    FAIL() << "no name is the step";
  } catch (const RefusedLog& refused) {
    std::string means;
    for (const AccountRow& row : refused.account.rows) {
      means += row.proposal().means + ' ';
      options.rules.push_back(row.proposal().rule());
    }
    EXPECT_EQ(means, "load_share tokens_of_step lr ce_loss step tokens_so_far val_loss ");
    EXPECT_EQ(row(refused.account, "nll_bits").proposal().scale, kNatsOfBit);
  }
  std::erase(options.rules, "");
  const OpenedRuns opened = open(path, options);
  const History& run = *opened.histories.at(0);
  EXPECT_EQ(run.info().tokens_per_step, 80);
  EXPECT_EQ(run.frame_at(5)->tokens, 480);
  EXPECT_EQ(run.info().n_experts, 2);
  EXPECT_TRUE(is_missing(run.frame_at(5)->routers.at(0).padding_fraction)) << "shares have no rows";
}

TEST_F(Accounts, OnlySharesHaveNoRows) {
  const OpenedRuns opened = open(
      write("run.jsonl",
            R"({"step":1,"loss":2.5,"routers":[{"layer":0,"tokens_per_expert":[15000,5000],"padding_fraction":null}]}
{"step":2,"loss":2.5,"routers":[{"layer":0,"tokens_per_expert":[15000,5000]}]}
)"));
  const History& run = *opened.histories.at(0);
  EXPECT_TRUE(are_shares(run.info(), run.frame_at(1)->routers.at(0))) << "as exports of a log of shares write them";
  EXPECT_FALSE(are_shares(run.info(), run.frame_at(2)->routers.at(0))) << "counts may have the same sum";
}

TEST_F(Accounts, NamesBesideTheirValuesAreRead) {
  const OpenedRuns opened = open(
      write("run.jsonl",
            R"({"step":1,"scalars":[{"tag":"loss","value":2.5},{"tag":"moe/layer_1/tokens_per_expert","value":[1,3]}]}
{"step":2,"scalars":[{"name":"loss","value":2.25},{"tag":"moe/layer_1/tokens_per_expert","value":[2,2]}]}
)"));
  const History& run = *opened.histories.at(0);
  EXPECT_EQ(run.values(Metric::ce_loss, kWholeRun, {2, 2})[0], 2.25f);
  EXPECT_EQ(run.frame_at(1)->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{1, 3}));
}

TEST_F(Accounts, TheProgramOfALogIsKnownByItsNames) {
  const auto program = [&](const char* name, const std::string& text) {
    const OpenedRuns opened = open(write(name, text));
    EXPECT_EQ(opened.histories.at(0)->settings_at(0)->program(), opened.accounts.at(0).program);
    return opened.accounts[0].program;
  };
  EXPECT_EQ(program("titan.jsonl", "{\"step\":1,\"loss_metrics/global_avg_loss\":2,\"lr\":0.1}\n"), "TorchTitan");
  EXPECT_EQ(program("megatron.jsonl", "{\"iteration\":1,\"lm loss\":2,\"moe/z_loss_layer_1\":1}\n"), "Megatron-LM");
  EXPECT_EQ(
      program("trainer_state.json", R"({"global_step":2,"log_history":[{"loss":2.5,"step":1},{"loss":2,"step":2}]})"),
      "Hugging Face Trainer");
  EXPECT_EQ(program("any.jsonl", "{\"step\":1,\"loss\":2,\"learning_rate\":0.1,\"grad norm\":1}\n"), "");
}

TEST_F(Accounts, NamesThatDifferInNumbersAreOneRow) {
  std::string line = R"({"step":1,"loss":2)";
  for (int layer : {1, 12})
    for (int expert = 0; expert < 16; ++expert)
      line += ",\"moe/layer_" + std::to_string(layer) + "/expert_" + std::to_string(expert) + "\":4";
  const OpenedRuns opened = open(write("run.jsonl", line + "}\n"));
  const AccountRow load = row(opened.accounts.at(0), "moe/layer_{layer}/expert_{expert}");
  EXPECT_EQ(load.names, 32);
  EXPECT_EQ(load.meaning, "Expert load");
}

TEST_F(Accounts, LoadsByShapeAreAssumedUntilTheUserStatesThem) {
  const std::string path = write("run.jsonl", invented_names(3));
  EXPECT_NE(problem_of([&] { open(path); }).find("no step"), std::string::npos);
  ImportOptions options;
  options.rules = {"[[tag]]\npattern = \"tick\"\nmeans = \"step\"\n"};
  const OpenedRuns assumed = open(path, options);
  const ImportAccount& account = assumed.accounts.at(0);
  EXPECT_EQ(account.assumption(), "loads assumed from `blk{layer}.e{expert}.frac`: confirm");
  const auto& history = *assumed.histories.at(0);
  EXPECT_EQ(history.info().n_experts, 4);
  EXPECT_EQ(history.info().moe_layers, (std::vector<int>{0, 1}));
  EXPECT_NEAR(history.values(Metric::max_vio, 1, {2, 2})[0], 0.6, 1e-3);
  ASSERT_FALSE(history.markers().empty());
  EXPECT_EQ(history.markers()[0].kind, kAssumptionMarker);

  options.rules.push_back(row(account, "blk{layer}.e{expert}.frac").proposal().rule());
  const OpenedRuns confirmed = open(path, options);
  EXPECT_TRUE(confirmed.accounts.at(0).assumption().empty());
  EXPECT_EQ(row(confirmed.accounts[0], "blk{layer}.e{expert}.frac").certainty, Certainty::stated);
  EXPECT_TRUE(confirmed.histories.at(0)->markers().empty());
}

TEST_F(Accounts, AFileBesideTheLogIsReadForEveryFormat) {
  write("moescope-tags.toml",
        "[[tag]]\npattern = \"tick\"\nmeans = \"step\"\n[[tag]]\npattern = \"nll_bits\"\nmeans = \"ce_loss\"\n"
        "scale = 0.693147\n[[tag]]\npattern = \"blk{layer}.e{expert}.frac\"\nmeans = \"load_share\"\n");
  const std::string names[] = {
      write("run.jsonl", invented_names(3)),
      write("run.csv",
            "tick,nll_bits,blk0.e0.frac,blk0.e1.frac,blk0.e2.frac,blk0.e3.frac,blk1.e0.frac,blk1.e1.frac,"
            "blk1.e2.frac,blk1.e3.frac\n2,2.998,0.2,0.2,0.4,0.2,0.2,0.2,0.4,0.2\n")};
  for (const std::string& path : names) {
    const OpenedRuns opened = open(path);
    const History& run = *opened.histories.at(0);
    EXPECT_NEAR(run.values(Metric::ce_loss, kWholeRun, {2, 2})[0], 2.998 * 0.693147, 1e-3) << path;
    EXPECT_NEAR(run.values(Metric::max_vio, 1, {2, 2})[0], 0.6, 1e-3) << path;
  }
}

TEST_F(Accounts, AFileForAllLogsIsFoundInTheConfigFolder) {
  write("config/moescope/tags/mine.toml", "[[tag]]\npattern = \"nll\"\nmeans = \"ce_loss\"\n");
  ::setenv("XDG_CONFIG_HOME", (root / "config").c_str(), 1);
  const OpenedRuns opened = open(write("run.jsonl", "{\"step\":1,\"nll\":2.5}\n"));
  ::unsetenv("XDG_CONFIG_HOME");
  EXPECT_EQ(opened.histories.at(0)->values(Metric::ce_loss, kWholeRun, {1, 1})[0], 2.5f);
}

TEST_F(Accounts, ARefusedLogHasAnAccountOfItsNames) {
  try {
    import_jsonl(write("run.jsonl", "{\"step\":1,\"a\":2.5}\n{\"step\":2,\"a\":2.5}\n"));
    FAIL();
  } catch (const RefusedLog& refused) {
    EXPECT_EQ(row(refused.account, "a").values, 2);
    EXPECT_NE(refused.account.refusal.find("none of its names is known"), std::string::npos);
  }
}

TEST_F(Accounts, TagsOfTensorBoardThatNobodyKnowsAreAccountedFor) {
  const OpenedRuns opened = open(write("events.out.tfevents.1", tb_summary(1, 1, tb_scalar("loss", 2)) +
                                                                    tb_summary(1, 1, tb_scalar("gpu/0/mem", 70)) +
                                                                    tb_summary(1, 1, tb_scalar("gpu/1/mem", 60))));
  const AccountRow memory = row(opened.accounts.at(0), "gpu/{n}/mem");
  EXPECT_EQ(std::pair(memory.names, memory.values), (std::pair<std::int64_t, std::int64_t>(2, 2)));
  EXPECT_EQ(memory.highest, 70);
}

TEST_F(Accounts, StatedNumbersAreObeyedOrRefused) {
  const std::string table = write("loads.csv", "layer_id,expert_id,count\n3,0,900\n3,1,913\n4,0,20\n");
  EXPECT_EQ(open(table).histories.at(0)->info().n_experts, 2);
  EXPECT_NE(open(table).remarks.back().find("--experts states it"), std::string::npos);
  ImportOptions options;
  options.routed.experts = 16;
  EXPECT_EQ(open(table, options).histories.at(0)->info().n_experts, 16);
  const std::string lines = write("run.jsonl", "{\"step\":1,\"tokens_per_expert\":[[1,2,3]]}\n");
  EXPECT_NE(problem_of([&] { open(lines, options); }).find("--experts 16, but the log has 3 experts"),
            std::string::npos);
  options.routed = {};
  options.routed.top_k = 2;
  EXPECT_EQ(open(lines, options).histories.at(0)->info().top_k, 2);
}

TEST_F(Accounts, ExpertsOfATokenAreFoundInTheSettingsOfTheLog) {
  const auto top_k = [&](const std::string& settings) {
    return open(write("run.jsonl", settings + "\n{\"step\":1,\"loss\":2,\"tokens_per_expert\":[[8,8,8,8]]}\n"));
  };
  const OpenedRuns nested = top_k(R"({"model":{"num_experts_per_tok":2},"optimizer":{"lr":0.1}})");
  EXPECT_EQ(nested.histories.at(0)->info().top_k, 2);
  EXPECT_EQ(nested.accounts.at(0).top_k.source, "stated in the log");
  EXPECT_EQ(nested.histories.at(0)->settings_at_start()->value(&OptimizerConfig::lr), 0.1);
  EXPECT_EQ(top_k(R"({"teacher":{"top_k":4},"student":{"top_k":2}})").histories.at(0)->info().top_k, 0)
      << "which of them is not known";
}

TEST_F(Accounts, LoadsByExpertAreReadFromObjects) {
  for (const char* loads : {R"({"layer_0":{"3":4,"0":8},"layer_1":{"1":12}})", R"({"0":{"3":4,"0":8},"1":{"1":12}})"}) {
    const OpenedRuns opened = open(write(
        "run.jsonl", std::string("{\"num_experts\":5}\n{\"step\":1,\"loss\":2,\"expert_counts\":") + loads + "}\n"));
    const auto frame = opened.histories.at(0)->frame_at(1);
    ASSERT_EQ(frame->routers.size(), 2u) << loads;
    EXPECT_EQ(frame->routers[0].tokens_per_expert, (std::vector<std::uint32_t>{8, 0, 0, 4, 0}));
    EXPECT_EQ(frame->routers[1].tokens_per_expert, (std::vector<std::uint32_t>{0, 12, 0, 0, 0}));
  }
  const OpenedRuns open_number = open(write("run.jsonl", R"({"step":1,"expert_counts":{"0":8,"2":4}}
{"step":2,"expert_counts":{"1":8,"4":4}}
)"));
  EXPECT_EQ(open_number.histories.at(0)->info().n_experts, 5);
  EXPECT_NE(open_number.remarks.at(0).find("--experts states it"), std::string::npos);
  const OpenedRuns by_layer = open(write("run.jsonl", R"({"num_experts":3}
{"step":1,"layer":4,"expert_counts":{"0":8,"2":4}}
)"));
  EXPECT_EQ(by_layer.histories.at(0)->frame_at(1)->routers.at(0).tokens_per_expert,
            (std::vector<std::uint32_t>{8, 0, 4}));
  const OpenedRuns figures_by_expert = open(write("run.jsonl", R"({"num_experts":4}
{"step":1,"layer_0/expert_utilization":{"0":0.5,"1":1.5,"2":2},"layer_0/expert_bias":{"0":0.5,"1":-0.5,"2":0,"3":0}}
{"step":2,"layer_0/expert_bias":{"0":0.5,"1":-0.5,"2":0,"3":0}}
)"));
  const RouterFrame shares = figures_by_expert.histories.at(0)->frame_at(1)->routers.at(0);
  EXPECT_EQ(shares.tokens_per_expert.at(1), 3 * shares.tokens_per_expert.at(0));
  EXPECT_EQ(shares.tokens_per_expert.at(3), 0u);
  EXPECT_EQ(shares.expert_bias, (std::vector<float>{0.5f, -0.5f, 0, 0}));
  const RouterFrame biases = figures_by_expert.histories.at(0)->frame_at(2)->routers.at(0);
  EXPECT_EQ(biases.expert_bias, shares.expert_bias);
  std::string too_many;
  for (int layer = 0; layer < 50; ++layer) too_many += ",\"L" + std::to_string(layer) + "E99999\":1";
  const OpenedRuns limited = open(
      write("run.jsonl", "{\"step\":1,\"loss\":2}\n{\"step\":2,\"expert_counts\":{" + too_many.substr(1) + "}}\n"));
  EXPECT_EQ(limited.skipped.at(0).bad.first().at(0).reason, "loads of too many experts");
}

TEST_F(Accounts, LoadsOfRanksAreAdded) {
  for (const char* layer : {"", "\"layer\":0,"}) {
    std::string text;
    for (int step = 0; step < 3; ++step)
      for (int rank = 0; rank < 3; ++rank)
        text += "{\"step\":" + std::to_string(step) + ",\"rank\":" + std::to_string(rank) +
                ",\"loss\":" + (rank == 1 ? "2.5" : "0.0") + "," + layer +
                "\"tokens_per_expert\":" + (*layer ? "[" : "[[") + std::to_string(4 + rank) + ",2" +
                (*layer ? "]" : "]]") + "}\n";
    const OpenedRuns opened = open(write("run.jsonl", text));
    const History& run = *opened.histories.at(0);
    EXPECT_EQ(run.frame_at(1)->routers.at(0).tokens_per_expert, (std::vector<std::uint32_t>{15, 6})) << layer;
    EXPECT_NEAR(run.values(Metric::max_vio, 0, {1, 1})[0], 15 / 10.5 - 1, 1e-5) << layer;
    EXPECT_EQ(run.values(Metric::ce_loss, kWholeRun, {1, 1})[0], 2.5f) << layer;
    EXPECT_TRUE(opened.remarks.empty()) << opened.remarks[0];
  }
}

TEST_F(Accounts, TheLossOfALogWithRewardsIsAskedFor) {
  const auto question_of = [&](const char* further) {
    const OpenedRuns opened = open(
        write("grpo.jsonl", std::string("{\"step\":1,\"loss\":0.002") + further + "}\n{\"step\":2,\"loss\":0.001}\n"));
    return std::ranges::find(opened.accounts.at(0).rows, "loss", &AccountRow::name)->question;
  };
  EXPECT_TRUE(says(question_of(",\"rewards/accuracy/mean\":0.5"), "the loss of a policy is no cross-entropy"));
  EXPECT_EQ(question_of(""), "");
}

TEST(AccountTexts, MeaningsHaveTheNamesOfTheirCards) {
  EXPECT_EQ(meaning_text("tokens_per_expert"), "Expert load");
  EXPECT_EQ(meaning_text("ce_loss"), "Cross-entropy loss");
  EXPECT_EQ(meaning_text("z_loss"), "Router z-loss");
  EXPECT_EQ(meaning_text("max_vio"), "MaxVio (batch)");
  EXPECT_EQ(meaning_text("step"), "Step");
  EXPECT_EQ(meaning_text("ignored"), "");
}

TEST_F(Accounts, TrackiosRunsAreRead) {
  const std::string path = (root / "project.db").string();
  fs::create_directories(root);
  {
    Connection database(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    database.execute(
        "CREATE TABLE metrics (id INTEGER PRIMARY KEY, timestamp TEXT, run_name TEXT, step INTEGER, "
        "metrics TEXT)");
    database.execute("CREATE TABLE configs (id INTEGER PRIMARY KEY, run_name TEXT, config TEXT, created_at TEXT)");
    database.execute("INSERT INTO configs VALUES (1, 'a', '{\"num_experts\": 8}', '')");
    database.execute(
        "INSERT INTO metrics VALUES (1, '', 'a', 3, '{\"train/loss\": 2.5}'), "
        "(2, '', 'b', 3, '{\"train/loss\": 1.5}'), (3, '', 'a', 4, '{\"train/loss\": 2.25}')");
  }
  const OpenedRuns opened = open(path);
  ASSERT_EQ(opened.histories.size(), 2u);
  EXPECT_EQ(opened.histories[0]->info().name, "a");
  EXPECT_EQ(opened.histories[0]->values(Metric::ce_loss, kWholeRun, {4, 4})[0], 2.25f);
}

}  // namespace
}  // namespace moescope
