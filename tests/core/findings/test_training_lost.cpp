// Trainings that are lost although no loss is NaN in the log, and trainings that only look so. Each log is that of
// another program; the router is even.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "core/findings/drop_watch.h"
#include "core/findings/findings.h"
#include "core/findings/health.h"
#include "core/findings/loss_watch.h"
#include "core/logs/lines/import_jsonl.h"
#include "tests/support/made_up_run.h"
#include "tests/support/says.h"

namespace moescope {
namespace {

constexpr float kNaNValue = std::numeric_limits<float>::quiet_NaN();

using FrameChange = std::function<void(std::int64_t step, TelemetryFrame& frame)>;

HistoryPtr run_of(int steps, const FrameChange& change) {
  MadeUp run;
  for (int i = 0; i < steps; ++i) {
    TelemetryFrame& frame = run.next();
    frame.routers = {run.router(1, MadeUp::even()), run.router(2, MadeUp::even())};
    change(frame.step, frame);
    run.push();
  }
  return run.history();
}

Health lost_health(const HistoryPtr& history) {
  FindingsScan scan(history);
  scan.advance(INT64_MAX);
  return judge_health(scan);
}

void expect_lost(const HistoryPtr& history, FindingKind kind, const std::string& training) {
  const auto findings = find_all(history);
  const auto lost = findings_of_kind(findings, kind);
  ASSERT_EQ(lost.size(), 1u) << all_text(findings);
  EXPECT_TRUE(lost[0].ongoing) << all_text(findings);
  EXPECT_EQ(lost[0].severity, Severity::severe) << all_text(findings);
  const Health health = lost_health(history);
  EXPECT_EQ(health.verdict, HealthVerdict::lost);
  EXPECT_EQ(health.router, HealthVerdict::healthy);
  EXPECT_EQ(health.training, training);
  EXPECT_EQ(health.sentence, "Router healthy. " + training);
}

TEST(TrainingLost, ALossOfZeroBesideAGradientThatIsNaNIsFound) {
  const auto filtered = run_of(300, [](std::int64_t step, TelemetryFrame& frame) {
    if (step >= 120) {
      frame.ce_loss = 0;
      frame.grad_norm = kNaNValue;
    }
  });
  expect_lost(filtered, FindingKind::loss_not_finite, "The loss has been NaN or infinite since step 120.");
  const auto findings = findings_of_kind(find_all(filtered), FindingKind::loss_not_finite);
  EXPECT_TRUE(says(findings[0].observation, "logging_nan_inf_filter")) << findings[0].observation;
  // As of a policy gradient whose rewards are equal.
  EXPECT_TRUE(find_all(run_of(300, [](std::int64_t step, TelemetryFrame& frame) {
                if (step >= 120) {
                  frame.ce_loss = 0;
                  frame.grad_norm = 0;
                }
              })).empty());
}

TEST(TrainingLost, AGradientThatStaysNaNIsFound) {
  const auto lost_from = [](std::int64_t first, std::int64_t last, std::int64_t interval) {
    return run_of(400, [=](std::int64_t step, TelemetryFrame& frame) {
      if (step % interval != 0)
        frame.grad_norm = kNoValue;
      else if (step >= first && step <= last)
        frame.grad_norm = kNaNValue;
    });
  };
  expect_lost(lost_from(300, 400, 1), FindingKind::loss_not_finite,
              "The gradient has been NaN or infinite since step 300.");
  expect_lost(lost_from(300, 400, 10), FindingKind::loss_not_finite,
              "The gradient has been NaN or infinite since step 300.");
  EXPECT_TRUE(find_all(lost_from(300, 318, 1)).empty()) << "19 steps";
  EXPECT_TRUE(find_all(lost_from(370, 400, 10)).empty()) << "3 values";
  const auto findings = find_all(lost_from(300, 319, 1));
  ASSERT_EQ(findings.size(), 1u) << all_text(findings);
  EXPECT_FALSE(findings[0].ongoing);
  EXPECT_EQ(findings[0].steps, (StepRange{300, 319}));
  // A program that logs NaN because it does not compute the norm.
  EXPECT_TRUE(find_all(lost_from(0, 400, 1)).empty()) << all_text(find_all(lost_from(0, 400, 1)));
}

TEST(TrainingLost, ALossThatIsNoLongerLoggedIsFound) {
  const auto unlogged = run_of(420, [](std::int64_t step, TelemetryFrame& frame) {
    if (step >= 400 || step % 3 != 0) frame.ce_loss = kNoValue;
  });
  const auto findings = find_all(unlogged);
  ASSERT_EQ(findings.size(), 1u) << all_text(findings);
  EXPECT_EQ(findings[0].kind, FindingKind::loss_unlogged);
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_TRUE(says(findings[0].observation,
                   "Step 399 has the newest loss. 20 later steps have other values, but no loss; between two losses "
                   "there were at most 2 such steps before."))
      << findings[0].observation;
  const Health health = lost_health(unlogged);
  EXPECT_EQ(health.verdict, HealthVerdict::attention);
  EXPECT_EQ(health.sentence, "Router healthy. The loss has not been logged since step 399.");
  const auto every_50th = run_of(420, [](std::int64_t step, TelemetryFrame& frame) {
    if (step % 10 != 0) frame.ce_loss = kNoValue;
  });
  EXPECT_TRUE(find_all(every_50th).empty()) << all_text(find_all(every_50th));
}

TEST(TrainingLost, ALossThatDivergesIsFound) {
  const auto rises_to = [](float to) {
    return run_of(460, [to](std::int64_t step, TelemetryFrame& frame) {
      if (step >= 400) frame.ce_loss = std::min(to, frame.ce_loss + 0.2f * static_cast<float>(step - 399));
    });
  };
  const auto findings = findings_of_kind(find_all(rises_to(9)), FindingKind::loss_stuck);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_TRUE(says(findings[0].title, "The loss diverged at step 40")) << findings[0].title;
  expect_lost(rises_to(9), FindingKind::loss_stuck, findings[0].title + ".");
  EXPECT_TRUE(findings_of_kind(find_all(rises_to(3)), FindingKind::loss_stuck).empty()) << "another text may be harder";
}

TEST(TrainingLost, AGradientNormThatGrowsWithoutLimitIsFound) {
  const auto grows = [](double times) {
    return run_of(500, [times](std::int64_t step, TelemetryFrame& frame) {
      const double share = std::clamp(static_cast<double>(step - 300) / 150, 0.0, 1.0);
      frame.grad_norm = static_cast<float>((0.5 + 0.1 * static_cast<double>(step % 7)) * std::pow(times, share));
    });
  };
  const auto findings = findings_of_kind(find_all(grows(1e5)), FindingKind::gradient_norm);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_NEAR(static_cast<double>(findings[0].steps.first), 315, 15);
  expect_lost(grows(1e5), FindingKind::gradient_norm, findings[0].brief + ".");
  EXPECT_EQ(findings_of_kind(find_all(grows(3e3)), FindingKind::gradient_norm).at(0).severity, Severity::warning);
  EXPECT_TRUE(find_all(grows(100)).empty());
}

TEST(TrainingLost, RepeatedSpikesOfTheGradientAreNoted) {
  const auto spikes = [](std::int64_t interval) {
    return run_of(400, [interval](std::int64_t step, TelemetryFrame& frame) {
      if (step > 100 && step % interval == 0) frame.grad_norm = 40;
    });
  };
  const auto findings = find_all(spikes(30));
  ASSERT_EQ(findings.size(), 1u) << all_text(findings);
  EXPECT_EQ(findings[0].severity, Severity::note);
  EXPECT_TRUE(says(findings[0].observation, "7 values of the newest 200 are above 10 times the median"))
      << findings[0].observation;
  EXPECT_EQ(lost_health(spikes(30)).verdict, HealthVerdict::healthy);
  EXPECT_TRUE(find_all(spikes(150)).empty());
}

TEST(TrainingLost, ARouterThatIsIllIsToldApart) {
  MadeUp run;
  MadeUp::Shares dead = MadeUp::even();
  dead[5] = 0;
  run.steps(300, dead, MadeUp::even());
  for (int i = 0; i < 20; ++i) {
    TelemetryFrame& frame = run.next();
    frame.routers = {run.router(1, dead), run.router(2, MadeUp::even())};
    frame.ce_loss = kNaNValue;
    run.push();
  }
  const Health health = lost_health(run.history());
  EXPECT_EQ(health.verdict, HealthVerdict::lost);
  EXPECT_EQ(health.router, HealthVerdict::unhealthy);
  EXPECT_TRUE(says(health.sentence, "Router unhealthy. The loss has been NaN or infinite since step 3"))
      << health.sentence;
  EXPECT_TRUE(says(health.sentence, "expert 5 gets no token")) << health.sentence;
}

TEST(TrainingLost, DroppedTokensNeedAttention) {
  const auto drops = [](float share) {
    return run_of(300, [share](std::int64_t, TelemetryFrame& frame) { frame.routers[1].dropped_fraction = share; });
  };
  const auto findings = find_all(drops(0.15f));
  ASSERT_EQ(findings.size(), 1u) << all_text(findings);
  EXPECT_EQ(findings[0].kind, FindingKind::dropped_tokens);
  EXPECT_EQ(findings[0].title, "Layer 2 drops 15 % of the copies of tokens");
  EXPECT_EQ(lost_health(drops(0.15f)).verdict, HealthVerdict::attention);
  EXPECT_TRUE(find_all(drops(0.05f)).empty());
}

TEST(TrainingLost, DroppedTokensAreFoundInLogsWithoutLoads) {
  const auto log_of = [](const std::string& name, const std::string& share) {
    LogReader reader("run.jsonl");
    for (int step = 0; step < 300; ++step)
      reader.read_line("{\"step\":" + std::to_string(step) + ",\"loss\":0.8,\"" + name + "\":" + share + "}");
    reader.finish_step();
    return HistoryPtr(reader.history());
  };
  const std::pair<std::string, std::string> names[] = {{"dropped_fraction", "The MoE layers drop"},
                                                       {"moe/dropped_fraction", "The MoE layers drop"},
                                                       {"moe/layer_3/dropped_fraction", "Layer 3 drops"}};
  for (const auto& [name, subject] : names) {
    const auto findings = findings_of_kind(find_all(log_of(name, "0.15")), FindingKind::dropped_tokens);
    ASSERT_EQ(findings.size(), 1u) << name;
    EXPECT_EQ(findings[0].title, subject + " 15 % of the copies of tokens");
    EXPECT_EQ(lost_health(log_of(name, "0.15")).verdict, HealthVerdict::attention) << name;
    const HistoryPtr rare_drops = log_of(name, "0.02");
    EXPECT_TRUE(findings_of_kind(find_all(rare_drops), FindingKind::dropped_tokens).empty()) << name;
    EXPECT_TRUE(std::ranges::count(checks_of(*rare_drops, {}).passed, "No layer drops 10 % of the copies of tokens."))
        << name;
  }
}

// transformers logs the loss before its coefficient: 8 for an even load of a top 8, Megatron-LM 1.
TEST(AuxiliaryLoss, IsComparedByWhatIsAddedToTheLoss) {
  const auto log_of = [](const std::string& settings, const std::string& aux) {
    LogReader reader("run.jsonl");
    reader.read_line("{" + settings + "}");
    for (int step = 0; step < 200; ++step)
      reader.read_line("{\"step\":" + std::to_string(step) + ",\"loss\":0.8,\"aux_loss\":" + aux + "}");
    reader.finish_step();
    return HistoryPtr(reader.history());
  };
  const auto found = [&](const std::string& settings, const std::string& aux) {
    return findings_of_kind(find_all(log_of(settings, aux)), FindingKind::auxiliary_dominates);
  };
  EXPECT_TRUE(found(R"("router_aux_loss_coef":0.001)", "8").empty());
  EXPECT_TRUE(found(R"("moe_aux_loss_coeff":0.001,"num_layers":4)", "1").empty());
  const auto large = found(R"("router_aux_loss_coef":0.5)", "8");
  ASSERT_EQ(large.size(), 1u);
  EXPECT_TRUE(says(large[0].observation, "It is 4 (8 in the log times 0.5) against 0.8 nats/token"))
      << large[0].observation;
  EXPECT_TRUE(found(R"("experts":8)", "8").empty());
  const Checks checks = checks_of(*log_of(R"("experts":8)", "8"), {});
  EXPECT_TRUE(std::ranges::any_of(checks.not_checked, [](const std::string& line) {
    return says(line, "auxiliary losses: needs the coefficient of the auxiliary loss (auxiliary loss weight)");
  }));
}

}  // namespace
}  // namespace moescope
