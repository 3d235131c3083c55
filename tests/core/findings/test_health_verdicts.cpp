// The verdict on logs whose truth is known: three classes, and the table of truths and verdicts. MOESCOPE_SEEDS=N makes
// every log with N seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/findings/health.h"
#include "core/logs/lines/import_jsonl.h"
#include "tests/support/synthetic_log.h"

namespace moescope {
namespace {

using Make = std::function<void(SyntheticLog&)>;

struct KnownLog {
  std::string name;
  HealthVerdict truth;
  LogShape shape;
  Make make;
  std::int64_t again_from = -1;  // the run is started once more from this step
};

using enum HealthVerdict;

// --- healthy ---

double decay(std::int64_t step, double steps) {
  return std::exp(-static_cast<double>(step) / steps);
}

// Experts with too many tokens at the beginning lose the excess slowly, as if a bias raised the others.
Make settles(double from, double steps, std::int64_t begin = 0) {
  return [=](SyntheticLog& log) {
    const int experts = log.shape().experts;
    log.change = [=](std::int64_t step, int layer, Shares& shares) {
      if (step < begin) return;
      const double share_of_change = decay(step - begin, steps);
      for (int e = 0; e < experts; ++e) {
        const double far = std::pow(from, std::cos(2.4 * e + layer));  // between 1 / from and from
        shares[static_cast<std::size_t>(e)] *= std::pow(far, share_of_change);
      }
    };
  };
}

Make kinds_in_turn(int kinds, double spread) {
  return [=](SyntheticLog& log) {
    std::vector<Shares> shares_by_kind(static_cast<std::size_t>(kinds));
    for (Shares& shares : shares_by_kind)
      for (int e = 0; e < log.shape().experts; ++e) shares.push_back(std::exp(spread * log.normal()));
    log.change = [&log, shares_by_kind](std::int64_t, int layer, Shares& shares) {
      const auto kind = static_cast<std::size_t>(log.uniform() * static_cast<double>(shares_by_kind.size()));
      for (std::size_t e = 0; e < shares.size(); ++e)
        shares[e] *= shares_by_kind[kind][(e + 7 * static_cast<std::size_t>(layer)) % shares.size()];
    };
  };
}

// Limits the lasting shares of the experts.
Make at_most(double share) {
  return [=](SyntheticLog& log) {
    for (int layer = 0; layer < log.shape().layers; ++layer)
      for (double& factor : log.lasting(layer)) factor = std::clamp(factor, 1 / share, share);
  };
}

Make drifts(double a_step) {
  return [=](SyntheticLog& log) {
    log.change = [&log, a_step](std::int64_t, int layer, Shares&) {
      for (double& share : log.lasting(layer)) share = std::exp(0.995 * std::log(share) + a_step * log.normal());
    };
  };
}

void add_healthy(std::vector<KnownLog>& logs) {
  const auto add = [&](std::string name, LogShape shape, Make make = {}, std::int64_t again_from = -1) {
    logs.push_back({std::move(name), healthy, shape, std::move(make), again_from});
  };
  struct Size {
    int experts, top_k;
    std::int64_t tokens;
  };
  for (const Size s : {Size{8, 1, 2048}, Size{8, 2, 256}, Size{8, 4, 512}, Size{16, 2, 1024}, Size{16, 8, 512},
                       Size{32, 4, 4096}, Size{64, 6, 24576}, Size{128, 8, 4096}, Size{256, 8, 8192}})
    add("even, " + std::to_string(s.experts) + " experts, top " + std::to_string(s.top_k),
        {.layers = 3, .experts = s.experts, .top_k = s.top_k, .tokens = s.tokens, .steps = 900});
  for (const Size s :
       {Size{256, 8, 1}, Size{64, 6, 2}, Size{128, 8, 8}, Size{16, 1, 16}, Size{64, 1, 64}, Size{8, 2, 4}})
    add("batches of " + std::to_string(s.tokens) + " tokens, " + std::to_string(s.experts) + " experts",
        {.layers = 2, .experts = s.experts, .top_k = s.top_k, .tokens = s.tokens, .steps = 1500});
  for (const int layers : {1, 12, 60})
    add(std::to_string(layers) + " layers",
        {.layers = layers, .experts = 32, .top_k = 4, .tokens = 2048, .steps = 700});
  add("settles from 5x in 90 steps", {}, settles(5, 90));
  add("settles from 4x in 200 steps", {}, settles(4, 200));
  add("settles from 5x in 120 steps, every 10th step", {.steps = 1500, .interval = 10}, settles(5, 120));
  add("settles from 4x in 200 steps, 8 experts", {.experts = 8, .top_k = 2, .tokens = 512}, settles(4, 200));
  for (const bool stated : {false, true}) {
    const std::string how = stated ? ", its first size stated" : "";
    add("batches shrink to a sixteenth" + how, {.tokens = 8192}, [stated](SyntheticLog& log) {
      log.tokens = [](std::int64_t step) { return step < 500 ? 8192 : 512; };
      log.tokens_are_stated = stated;
    });
    add("batches shrink to 64 tokens" + how, {.tokens = 4096, .steps = 1400}, [stated](SyntheticLog& log) {
      log.tokens = [](std::int64_t step) { return step < 600 ? 4096 : 64; };
      log.tokens_are_stated = stated;
    });
    add("batches grow step by step" + how, {.tokens = 128, .steps = 1200}, [stated](SyntheticLog& log) {
      log.tokens = [](std::int64_t step) { return std::int64_t{128} << (step / 200); };
      log.tokens_are_stated = stated;
    });
  }
  add("started again from a checkpoint", {.steps = 800}, {}, 500);
  add("started again, and settles anew", {.steps = 900}, settles(3, 60, 500), 500);
  add("without a loss", {}, [](SyntheticLog& log) { log.has_loss = [](std::int64_t) { return false; }; });
  add("loads on every 10th step, the loss on all", {.steps = 1500},
      [](SyntheticLog& log) { log.has_load = [](std::int64_t step) { return step % 10 == 0; }; });
  add("loads on every 7th step from step 3", {.steps = 1400},
      [](SyntheticLog& log) { log.has_load = [](std::int64_t step) { return step % 7 == 3; }; });
  for (const std::int64_t interval : {2, 5, 10, 20, 50, 100})
    add("every " + std::to_string(interval) + "th step", {.steps = 40 * interval + 900, .interval = interval});
  add("steps count tokens", {.steps = 1000},
      [](SyntheticLog& log) { log.number = [](std::int64_t step) { return (step + 1) * 4'000'000; }; });
  add("begins at step 20,000", {},
      [](SyntheticLog& log) { log.number = [](std::int64_t step) { return step + 20'000; }; });
  for (const auto& [experts, top_k, lasting] :
       {std::tuple{8, 2, 0.3}, std::tuple{16, 1, 0.28}, std::tuple{32, 4, 0.25}, std::tuple{64, 8, 0.22},
        std::tuple{128, 8, 0.2}, std::tuple{8, 4, 0.2}})
    add("softmax, uneven by " + std::to_string(lasting).substr(0, 4) + ", " + std::to_string(experts) + " experts",
        {.experts = experts, .top_k = top_k, .steps = 1200, .lasting = lasting}, at_most(1.8));
  add("shares that drift", {.steps = 1500}, drifts(0.012));
  add("shares that drift, 16 experts", {.experts = 16, .top_k = 2, .steps = 1500}, drifts(0.015));
  add("batches of one of 4 kinds of text", {.steps = 900, .lasting = 0.05}, kinds_in_turn(4, 0.22));
  add("batches of one of 10 kinds of text", {.experts = 16, .top_k = 2, .tokens = 512, .steps = 900, .lasting = 0.05},
      kinds_in_turn(10, 0.35));
  add("uneven batches around even shares", {.steps = 900, .by_batch = 0.35});
  add("uneven batches around even shares, every 20th step", {.steps = 2000, .interval = 20, .by_batch = 0.35});
  add("another kind of text, and even again after 60 steps", {.steps = 1300}, settles(2.5, 60, 700));
  add("an expert is full for 100 steps", {.steps = 1200}, [](SyntheticLog& log) {
    log.change = [](std::int64_t step, int layer, Shares& shares) {
      if (layer == 1 && step >= 400 && step < 500) shares[9] *= 6;
    };
  });
}

// --- needs attention ---

// Gives `n` experts of the layer `share` times their usual load, from a step on.
Make some_at(int layer, int n, double share, std::int64_t from = 0, int distance = 3) {
  return [=](SyntheticLog& log) {
    const auto experts = static_cast<std::size_t>(log.shape().experts);
    log.change = [=](std::int64_t step, int changed_layer, Shares& shares) {
      if (changed_layer != layer || step < from) return;
      double other_experts = static_cast<double>(experts), set = 0;
      std::vector<bool> chosen(experts);
      for (std::size_t i = 0, e = 2; static_cast<int>(i) < n;
           ++i, e = (e + static_cast<std::size_t>(distance)) % experts) {
        while (chosen[e]) e = (e + 1) % experts;
        chosen[e] = true;
        other_experts -= 1;
        set += share;
      }
      const double other_share = (static_cast<double>(experts) - set) / other_experts;
      for (std::size_t e = 0; e < experts; ++e) shares[e] *= chosen[e] ? share : other_share;
    };
  };
}

// Gives `n` neighboring experts, from `first` on, `share` times their usual load.
Make neighbours(int layer, int first, int n, double share) {
  return [=](SyntheticLog& log) {
    const double experts = log.shape().experts;
    log.change = [=](std::int64_t, int changed_layer, Shares& shares) {
      if (changed_layer != layer) return;
      const double other_share = (experts - n * share) / (experts - n);
      for (int e = 0; e < static_cast<int>(experts); ++e)
        shares[static_cast<std::size_t>(e)] *= e >= first && e < first + n ? share : other_share;
    };
  };
}

Make another_in_every_batch(double share) {
  return [=](SyntheticLog& log) {
    log.change = [&log, share](std::int64_t step, int layer, Shares& shares) {
      const auto full = static_cast<std::size_t>(step * 37 + layer * 11) % shares.size();
      const double other_share = (log.shape().experts - share) / (log.shape().experts - 1);
      for (std::size_t e = 0; e < shares.size(); ++e) shares[e] *= e == full ? share : other_share;
    };
  };
}

Make swings(double period, double by) {
  return [=](SyntheticLog& log) {
    log.change = [=](std::int64_t step, int layer, Shares& shares) {
      for (std::size_t e = 0; e < shares.size(); ++e)
        shares[e] *= 1 + by * std::cos(6.283185307 * (static_cast<double>(step) / period) + (e % 2 ? 3.14159265 : 0) +
                                       0.1 * layer);
    };
  };
}

// Raises MaxVio to `to` at a step, for good, in every layer except the first `layers_that_stay`.
Make jumps(double to, std::int64_t at, int layers_that_stay = 0) {
  return [=](SyntheticLog& log) {
    log.change = [=](std::int64_t step, int layer, Shares& shares) {
      if (step < at || layer < layers_that_stay) return;
      for (std::size_t e = 0; e < shares.size(); ++e)
        shares[e] *= (e + static_cast<std::size_t>(layer)) % 4 == 0 ? 1 + to : 1 - to / 3;
    };
  };
}

Make swapped(int a, int b, std::int64_t from, std::int64_t to = INT64_MAX) {
  return [=](SyntheticLog& log) {
    log.change = [&log, a, b, from, to](std::int64_t step, int layer, Shares& shares) {
      if (step < from || step >= to || (layer != a && layer != b)) return;
      shares = log.lasting(layer == a ? b : a);
    };
  };
}

void add_attention(std::vector<KnownLog>& logs) {
  const auto add = [&](std::string name, LogShape shape, Make make) {
    logs.push_back({std::move(name), attention, shape, std::move(make)});
  };
  add("16 of 64 experts at 5 %", {}, some_at(1, 16, 0.05));
  add("16 of 64 experts at 5 %, every 10th step", {.steps = 1500, .interval = 10}, some_at(1, 16, 0.05));
  add("8 of 32 experts at 10 %", {.experts = 32, .top_k = 4, .tokens = 2048}, some_at(0, 8, 0.1));
  add("64 of 256 experts at 4 %", {.layers = 2, .experts = 256, .top_k = 8, .tokens = 8192}, some_at(1, 64, 0.04));
  add("4 of 16 experts at 12 %, from step 300", {.experts = 16, .top_k = 2, .tokens = 1024}, some_at(2, 4, 0.12, 300));
  add("16 of 128 experts at 15 % in one of 20 layers", {.layers = 20, .experts = 128, .top_k = 8, .steps = 800},
      some_at(13, 16, 0.15));
  add("half of 64 experts at 0.1", {}, some_at(0, 32, 0.1, 0, 2));
  add("half of 8 experts at 0.1", {.experts = 8, .top_k = 2, .tokens = 512}, some_at(1, 4, 0.1, 0, 2));
  add("half of 128 experts at 0.15, every 20th step", {.experts = 128, .top_k = 8, .steps = 2000, .interval = 20},
      some_at(2, 64, 0.15, 0, 2));
  add("an expert at half a per cent", {}, some_at(2, 1, 0.005));
  add("an expert at half a per cent, every 10th step", {.steps = 1500, .interval = 10, .by_batch = 0.02},
      some_at(2, 1, 0.005));
  add("an expert at 3.5x for 600 steps", {.steps = 900}, some_at(1, 1, 3.5, 300));
  add("an expert at 3.5x, a log of 600 steps", {.steps = 600}, some_at(1, 1, 3.5));
  add("an expert at 3.3x for 600 steps, every 5th step", {.steps = 1000, .interval = 5}, some_at(1, 1, 3.3, 400));
  add("an expert at 3x for 700 steps in one of 30 layers", {.layers = 30, .steps = 1000}, some_at(17, 1, 3, 300));
  add("an expert at 2.6x for 750 steps", {.experts = 16, .top_k = 2, .tokens = 2048}, some_at(0, 1, 2.6, 250));
  add("an expert at 2.4x for 1,000 steps", {}, some_at(2, 1, 2.4));
  add("an expert at 5x for 500 steps", {}, some_at(2, 1, 5, 500));
  add("an expert at 3.5x, steps count tokens", {.steps = 800}, [](SyntheticLog& log) {
    some_at(1, 1, 3.5)(log);
    log.number = [](std::int64_t step) { return (step + 1) * 4'000'000; };
  });
  add("a different expert at 9x in every batch", {}, another_in_every_batch(9));
  add("a different expert at 6x in every batch, top 1 of 16", {.experts = 16, .top_k = 1, .tokens = 2048},
      another_in_every_batch(6));
  add("a different expert at 5x in every batch", {.experts = 128, .top_k = 8, .tokens = 8192, .steps = 1300},
      another_in_every_batch(5));
  add("a different expert at 9x in every batch, every 10th step", {.steps = 1500, .interval = 10},
      another_in_every_batch(9));
  add("swings with a period of 4 steps, no bias in the log", {}, swings(4, 0.8));
  add("swings with a period of 2 steps, no bias in the log", {.experts = 16, .top_k = 2}, swings(2, 0.8));
  add("swings with a period of 7 steps, no bias in the log", {.experts = 32, .top_k = 4}, swings(7, 0.9));
  add("swings by three quarters with a period of 6 steps, no bias in the log", {}, swings(6, 0.75));
  add("swings with a period of 5 steps, every 2nd step", {.steps = 1200, .interval = 2}, swings(5, 0.8));
  add("swings with a period of 11 steps, every 3rd step", {.steps = 1500, .interval = 3}, swings(11, 0.9));
  add("all layers jump from 0.2 to 0.8 and stay", {.steps = 1200, .lasting = 0.05}, jumps(0.8, 600));
  add("12 layers jump to 0.7 and stay", {.layers = 12, .experts = 32, .top_k = 4, .steps = 1100}, jumps(0.7, 500));
  add("10 of 12 layers jump to 0.8 and stay", {.layers = 12, .experts = 32, .top_k = 4, .steps = 1100},
      jumps(0.8, 500, 2));
  add("all layers jump to 0.8 and stay, every 10th step", {.steps = 1500, .interval = 10, .lasting = 0.06},
      jumps(0.8, 700));
  add("two layers are swapped for 700 steps", {.steps = 1400, .lasting = 0.2}, swapped(0, 2, 700));
  add("two of 12 layers are swapped for 700 steps", {.layers = 12, .steps = 1200, .lasting = 0.15}, swapped(4, 9, 500));
  add("two layers are swapped, every 10th step", {.steps = 1600, .interval = 10, .lasting = 0.2}, swapped(1, 2, 800));
  add("eight neighbours of 64 at 1.8x", {}, neighbours(1, 16, 8, 1.8));
  add("16 neighbours of 128 at 1.7x", {.experts = 128, .top_k = 8}, neighbours(0, 48, 16, 1.7));
  add("4 neighbours of 32 at 1.9x", {.experts = 32, .top_k = 4, .lasting = 0.06}, neighbours(2, 12, 4, 1.9));
  add("32 neighbours of 256 at 1.6x", {.layers = 2, .experts = 256, .top_k = 8, .tokens = 8192},
      neighbours(1, 96, 32, 1.6));
  add("eight neighbours of 64 at 1.8x, every 10th step", {.steps = 1500, .interval = 10}, neighbours(2, 40, 8, 1.8));
}

// --- unhealthy ---

// Sends all tokens of a layer to `n` experts in the end.
Make collapses(int layer, int n, std::int64_t from, double steps) {
  return [=](SyntheticLog& log) {
    log.change = [=](std::int64_t step, int changed_layer, Shares& shares) {
      if (changed_layer != layer || step < from) return;
      const double remaining_share = 0.004 + 0.996 * decay(step - from, steps);
      for (std::size_t e = static_cast<std::size_t>(n); e < shares.size(); ++e) shares[e] *= remaining_share;
    };
  };
}

Make dead(int layer, std::vector<std::size_t> experts, std::int64_t from = 0) {
  return [=](SyntheticLog& log) {
    log.change = [=](std::int64_t step, int changed_layer, Shares& shares) {
      if (changed_layer != layer || step < from) return;
      for (const std::size_t e : experts) shares[e] = 0;
    };
  };
}

void add_unhealthy(std::vector<KnownLog>& logs) {
  const auto add = [&](std::string name, LogShape shape, Make make) {
    logs.push_back({std::move(name), unhealthy, shape, std::move(make)});
  };
  add("collapses to 7 of 64 experts", {}, collapses(1, 7, 200, 60));
  add("collapses to 7 of 64 experts, every 10th step", {.steps = 1500, .interval = 10}, collapses(1, 7, 200, 60));
  add("collapses to 2 of 8 experts", {.experts = 8, .top_k = 2, .tokens = 512}, collapses(2, 2, 300, 80));
  add("collapses to 1 of 16 experts", {.experts = 16, .top_k = 1}, collapses(0, 1, 100, 100));
  add("collapses to 10 of 256 experts in one of 20 layers",
      {.layers = 20, .experts = 256, .top_k = 8, .tokens = 8192, .steps = 500}, collapses(11, 10, 200, 50));
  add("is collapsed from its first step", {.steps = 300}, collapses(0, 8, 0, 1));
  add("a dead expert of 64", {}, dead(2, {5}));
  add("a dead expert of 64, every 10th step", {.steps = 1000, .interval = 10}, dead(2, {5}));
  add("a dead expert of 64, every 20th step", {.steps = 1400, .interval = 20}, dead(2, {5}));
  add("a dead expert of 64, every 50th step", {.steps = 2000, .interval = 50}, dead(2, {5}));
  add("a dead expert of 8, from step 500", {.experts = 8, .top_k = 1, .tokens = 256}, dead(1, {3}, 500));
  add("two dead experts of 256 in small batches", {.layers = 2, .experts = 256, .top_k = 8, .tokens = 64, .steps = 900},
      dead(1, {17, 200}));
  add("half of 32 experts dead", {.experts = 32, .top_k = 4, .steps = 800},
      dead(2, {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30}, 200));
  add("a dead expert, steps count tokens", {.steps = 800}, [](SyntheticLog& log) {
    dead(0, {9})(log);
    log.number = [](std::int64_t step) { return (step + 1) * 4'000'000; };
  });
  const auto add_lost = [&](std::string name, LogShape shape, Make make) {
    logs.push_back({std::move(name), lost, shape, std::move(make)});
  };
  add_lost("a loss that is lost", {.steps = 600}, [](SyntheticLog& log) {
    log.loss = [](std::int64_t step) { return step < 500 ? 2.0f : std::numeric_limits<float>::quiet_NaN(); };
  });
  add_lost("a loss that is infinite", {.steps = 600}, [](SyntheticLog& log) {
    log.loss = [](std::int64_t step) { return step < 580 ? 2.0f : std::numeric_limits<float>::infinity(); };
  });
}

// --- the table ---

Health judged(const KnownLog& known, unsigned seed) {
  SyntheticLog log(known.shape, seed);
  if (known.make) known.make(log);
  const std::shared_ptr<History> history = log.history();
  if (known.again_from >= 0) log.append_again(known.again_from, known.shape.steps, *history);
  FindingsScan scan(history);
  scan.advance(INT64_MAX);
  return judge_health(scan);
}

unsigned tried_logs() {
  const char* n = std::getenv("MOESCOPE_SEEDS");
  return n ? static_cast<unsigned>(std::atoi(n)) : 1;
}

TEST(HealthVerdicts, AreThoseOfLogsWhoseTruthIsKnown) {
  std::vector<KnownLog> logs;
  add_healthy(logs);
  add_attention(logs);
  add_unhealthy(logs);
  EXPECT_GE(logs.size(), 90u);
  constexpr std::size_t kVerdicts = static_cast<std::size_t>(HealthVerdict::lost) + 1;
  std::array<std::array<int, kVerdicts>, kVerdicts> table{};  // [truth][verdict]
  for (const KnownLog& known : logs)
    for (unsigned seed = 1; seed <= tried_logs(); ++seed) {
      const Health health = judged(known, seed);
      ++table[static_cast<std::size_t>(known.truth)][static_cast<std::size_t>(health.verdict)];
      EXPECT_EQ(health.verdict, known.truth)
          << known.name << ", seed " << seed << ": called \"" << health_verdict_name(health.verdict) << "\", is \""
          << health_verdict_name(known.truth) << "\"\n  " << health_text(health);
    }
  std::printf("%-18s %10s %10s %10s %10s\n", "truth \\ called", "healthy", "attention", "unhealthy", "no verdict");
  for (const HealthVerdict truth : {healthy, attention, unhealthy}) {
    const auto& row = table[static_cast<std::size_t>(truth)];
    std::printf("%-18s %10d %10d %10d %10d\n", health_verdict_name(truth), row[static_cast<std::size_t>(healthy)],
                row[static_cast<std::size_t>(attention)], row[static_cast<std::size_t>(unhealthy)],
                row[static_cast<std::size_t>(unknown)] + row[static_cast<std::size_t>(too_young)]);
  }
}

std::ptrdiff_t jumps_in(const std::shared_ptr<History>& history) {
  FindingsScan scan(history);
  scan.advance(INT64_MAX);
  return std::ranges::count_if(scan.findings(), [](const Finding& finding) {
    return finding.kind == FindingKind::load_shift || finding.kind == FindingKind::no_recovery;
  });
}

// A perfect balance, as with forced routing or with experts that choose their tokens: any factor of its MaxVio is 0.
TEST(HealthVerdicts, APerfectBalanceHasNoJump) {
  LogReader even("even.jsonl");
  for (int step = 0; step < 700; ++step)
    even.read_line("{\"step\":" + std::to_string(step) + ",\"loss\":3,\"tokens_per_expert\":[[500,500,500,500]]}");
  even.finish_step();
  EXPECT_EQ(jumps_in(even.history()), 0);
}

}  // namespace
}  // namespace moescope
