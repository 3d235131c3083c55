// The results of a sweep: columns on a terminal, a CSV, a page with a figure.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/training/engine/sweep.h"

namespace moescope {

struct SweepResult {
  std::string run;  // name of the run that was varied
  std::int64_t steps = 0;
  int seeds = 1;
  std::span<const SweepAxis> axes;
  std::span<const SweepPoint> points;
};

// A figure of the tables: its title, and the keys of its CSV columns.
struct SweepColumn {
  const char *title, *key, *half_key;  // half_key: half the interval over seeds; nullptr: not shown
  SeedMean SweepPoint::*figure;
  const char* format;
};
inline constexpr SweepColumn kSweepColumns[] = {
    {"loss", "loss_nats", "loss_interval", &SweepPoint::loss, ".4f"},
    {"gap to the first", "gap_to_first_nats", "gap_interval", &SweepPoint::gap, "+.4f"},
    {"validation loss", "validation_loss_nats", "validation_loss_interval", &SweepPoint::val_loss, ".4f"},
    {"lowest SQNR, dB", "sqnr_worst_db", nullptr, &SweepPoint::worst_sqnr, ".1f"},
    {"mean SQNR, dB", "sqnr_mean_db", nullptr, &SweepPoint::mean_sqnr, ".1f"},
    {"MaxVio", "max_vio", nullptr, &SweepPoint::max_vio, ".3f"},
    {"tokens/s", "tokens_per_s", nullptr, &SweepPoint::tokens_per_s, ".0f"},
};

std::string sweep_report(const SweepResult& result);  // the table, and sentences that explain the figures
std::string sweep_csv(const SweepResult& result);     // RFC 4180; cells of unknown figures are empty
// Returns a self-contained HTML page: the table, and each point's loss with its seeds and interval on one axis.
std::string sweep_page(const SweepResult& result);

// Returns a JSON text with the training recipe (core/findings/comparison/training_recipe.h) of each point and the gap
// to the first point. `runs`: of the sweep.
std::string sweep_recipes(const SweepResult& result, std::span<const RunGroup> runs);

// Returns the sentences below the table: over which steps and seeds the figures are taken, what the intervals mean.
std::string sweep_notes(const SweepResult& result);

}  // namespace moescope
