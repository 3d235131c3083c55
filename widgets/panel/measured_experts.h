// Measurements of experts as panels show them: what a model loses without an expert, and how similar experts are.
#pragma once

#include <QString>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>

#include "core/frame/frame.h"
#include "core/frame/model_scans.h"
#include "widgets/look/counted_text.h"
#include "widgets/plots/axis.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

template <typename Figures>
struct Measured {
  using ByStep = std::map<std::int64_t, Figures>;
  QString run;     // letter and name of the run
  ByStep by_step;  // not empty; for a run of this program, with the weights before the step

  // Returns the newest figures at or before `step`, or the first figures if there are none.
  const typename ByStep::value_type& at(std::int64_t step) const {
    const auto after = by_step.upper_bound(step);
    return after == by_step.begin() ? *after : *std::prev(after);
  }
};
using MeasuredExperts = Measured<ExpertScan>;
using MeasuredSimilarity = Measured<ExpertSimilarity>;

// True if experts of the active run can be measured: a log of another program has no weights.
inline bool hasModel(const Selection& selection) {
  const History* history = selection.history();
  return history && run_origin(history->info()) != RunOrigin::log;
}

// Returns the step and the figures of the active run at the cursor; nullptr if it has not been measured.
template <typename Figures>
const typename Measured<Figures>::ByStep::value_type* atCursor(const std::shared_ptr<const Measured<Figures>>& measured,
                                                               const Selection& selection) {
  const bool is_of_run = measured && selection.history() && measured->run == runLabel(selection, selection.run());
  return is_of_run ? &measured->at(selection.step()) : nullptr;
}

// True if the figures of atCursor() are for the weights at the cursor. The weights of a run change at every step, those
// of a checkpoint do not.
inline bool isStepOfCursor(std::int64_t measured, const Selection& selection) {
  return measured == selection.step() || run_origin(selection.history()->info()) == RunOrigin::checkpoint;
}

// "0.0123 \u00b1 0.0021"; the mean alone if there is no interval.
inline QString intervalText(const FigureOfPieces& figure) {
  const QString mean = inPrint(QString::number(figure.mean, 'g', 3));
  return std::isnan(figure.interval)
             ? mean
             : mean + QStringLiteral(" \u00b1 ") + inPrint(QString::number(figure.interval, 'g', 2));
}
// "+0.0123"; a change of the loss in nats/token.
inline QString lossChangeText(double change) {
  return (change > 0 ? QStringLiteral("+") : QString()) + inPrint(QString::number(change, 'g', 3));
}
inline QString lossChangeText(const FigureOfPieces& figure) {
  return (figure.mean > 0 ? QStringLiteral("+") : QString()) + intervalText(figure);
}

// Describes what was measured of the active run: "weights before step 20, in FP32, 95 % intervals over 8 pieces of
// text, A nano". The step comes first, since a narrow header shows the beginning only.
inline QString measuredText(const Selection& selection, int pieces, std::int64_t step) {
  const QString text = QString("95 % intervals over %1, %2")
                           .arg(countedText(pieces, "piece of text"), runLabel(selection, selection.run()));
  return run_origin(selection.history()->info()) == RunOrigin::checkpoint
             ? text
             : QString("weights before step %1, in FP32, %2").arg(formatCount(step), text);
}

}  // namespace moescope
