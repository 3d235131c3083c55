#include "widgets/compare/load_difference_panel.h"

#include <QPainter>
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/frame/frame.h"
#include "core/frame/router_stats.h"
#include "widgets/plots/color_scale.h"

namespace moescope {
namespace {

constexpr double kMinWeightDifference = 1e-5;  // low end of the logarithmic colour scale

LegendScale weightLegend(bool dark) {
  return {.lut = viridisLut(dark),
          .low = QStringLiteral("\u2264 %1 %").arg(kMinWeightDifference * 100),
          .high = "100 %",
          .caption = QStringLiteral("of its norm")};
}

// Returns |W_B - W_A| / |W_A| (norms) of an expert from its SQNR in dB.
float weightDifference(float sqnr_db) {
  return is_missing(sqnr_db) ? kNoValue : std::pow(10.0f, -sqnr_db / 20);
}

LegendScale differenceLegend(bool dark, double limit) {
  return {.lut = utilisationLut(dark),
          .low = QStringLiteral("\u2212%1").arg(limit),
          .high = QStringLiteral("+%1").arg(limit),
          .caption = QStringLiteral("\u00d7 fair share"),
          .first_code = 2};
}

// The run's frame at the cursor, or at A's last step if A ends before the cursor.
std::shared_ptr<const TelemetryFrame> comparedFrame(const Selection& selection, int run) {
  const History& shown_run = *selection.histories()[run];
  const std::int64_t step = selection.stepOf(shown_run, selection.step());
  return shown_run.frame_at(selection.isByTokens() ? step
                                                   : std::min(step, selection.histories().front()->steps().last));
}

QString signedShare(float value) {
  return (value > 0 ? QStringLiteral("+") : QString()) + withMinus(QString::number(value, 'f', 2));
}

}  // namespace

LoadDifferencePanel::LoadDifferencePanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Load difference", Provenance::measured_here, parent) {
  view_ = new MatrixPlot(this);
  view_->refill = [this] { refill(); };
  view_->describe = [this](int row, int column) { return describe(row, column); };
  view_->decorate = [this](QPainter& painter) { paintNumbers(painter); };
  view_->setWeights(utilisationWeights());
  connect(selection_, &Selection::focusChanged, this, &LoadDifferencePanel::markCurrent);
  followSelection(view_);
  connect(view_, &MatrixPlot::cellChosen, this, [this](int row, int column) {
    selection_->setLayer(rows_[row].layer);
    selection_->setExpert(column);
  });
  connect(selection_, &Selection::dataChanged, this, &LoadDifferencePanel::followOrigin);
  shown_ = makeChoice({"minus A", "weights"}, "Loads",
                      "Load of each expert in the run minus its load in run A; for checkpoints also the difference "
                      "between the weights of each expert and its weights in A");
  connect(shown_, &QComboBox::currentIndexChanged, view_, &PlotFrame::markDirty);
  addControl(shown_);
  showAnswers();
  addBody(view_);
  keepState("shown", shown_);
}

// Shows the weights of checkpoints first, since the loads at the cursor are those of one batch of text.
void LoadDifferencePanel::followOrigin() {
  const bool has_weights = !weightRows(comparedRun(*selection_)).empty();
  if (std::exchange(has_weights_, has_weights) == has_weights) return;
  if (has_weights || showsWeights()) shown_->setCurrentIndex(has_weights);
}

// Returns a row for each layer whose experts have the shapes of A's experts; only for checkpoints that were run
// together.
std::vector<LoadDifferencePanel::Row> LoadDifferencePanel::weightRows(int run) const {
  std::vector<Row> rows;
  if (run < 0 || run_origin(selection_->histories().front()->info()) != RunOrigin::checkpoint) return rows;
  const auto frame = selection_->histories()[run]->specialisation_frame_at(INT64_MAX);
  if (!frame) return rows;
  for (const SpecialisationFrame& layer : frame->specialisation) {
    Row row{frame->step, layer.layer, {}, {}, {}};
    for (const float sqnr : layer.weight_sqnr_E) row.difference.push_back(weightDifference(sqnr));
    if (!row.difference.empty()) rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<LoadDifferencePanel::Row> LoadDifferencePanel::rows(int run) const {
  if (showsWeights()) return weightRows(run);
  std::vector<Row> rows;
  if (run < 0) return rows;
  const History &run_a = *selection_->histories().front(), &run_b = *selection_->histories()[run];
  const auto b = comparedFrame(*selection_, run);
  if (!b) return rows;
  const auto step_of_a = paired_step(run_b, b->step, run_a, selection_->isByTokens());
  const auto a = step_of_a ? run_a.frame_at(*step_of_a) : nullptr;
  if (!a) return rows;
  for (const RouterFrame& router : b->routers) {
    const RouterFrame* other = find_router(a.get(), router.layer);
    if (!other) continue;
    Row row{b->step, router.layer, load_difference(*other, router), {}, {}};
    if (row.difference.empty()) continue;
    for (std::size_t e = 0; e < row.difference.size(); ++e) {
      row.run_load.push_back(utilisation(router.tokens_per_expert, e));
      row.a_load.push_back(utilisation(other->tokens_per_expert, e));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// "B: 1 of 64 experts has other weights than in A, the largest difference in layer 3, expert 5: 12 % of the norm".
Panel::Answer LoadDifferencePanel::weightAnswer(int run) const {
  int differ = 0, all = 0, layer = 0, expert = 0;
  float largest = 0;
  for (const Row& row : weightRows(run))
    for (std::size_t e = 0; e < row.difference.size(); ++e, ++all) {
      differ += row.difference[e] > 0;
      if (row.difference[e] > largest) {
        largest = row.difference[e];
        layer = row.layer;
        expert = to_int(e);
      }
    }
  if (all == 0) return {};
  const QString letter = runLetter(*selection_, run);
  if (differ == 0) return {{}, {QString("%1: all %2 experts have the weights of A").arg(letter).arg(all), "Equal"}};
  const QString count = (differ == 1 ? QString("%1: %2 of %3 experts has other weights than in A")
                                     : QString("%1: %2 of %3 experts have other weights than in A"))
                            .arg(letter)
                            .arg(differ)
                            .arg(all);
  return {{},
          {QString("%1, the largest difference in layer %2, expert %3: %4 of the norm")
               .arg(count)
               .arg(layer)
               .arg(expert)
               .arg(formatPercent(largest)),
           QString("%1, most in layer %2, expert %3").arg(count).arg(layer).arg(expert), count}};
}

// The answer compares the mean difference of the shown run with that of the noise twin.
Panel::Answer LoadDifferencePanel::answer() const {
  const int shown_run = comparedRun(*selection_);
  if (shown_run < 0) return {};
  if (showsWeights()) return weightAnswer(shown_run);
  const auto mean = [this](int run) {
    double sum = 0;
    std::size_t count = 0;
    for (const Row& row : rows(run)) {
      for (const float value : row.difference) sum += std::fabs(value);
      count += row.difference.size();
    }
    return count == 0 ? std::nan("") : sum / count;
  };
  const double run_mean = mean(shown_run);
  if (std::isnan(run_mean)) return {};
  const QString differs = QString("%1: an expert's load differs from A's by %2 of a fair share on average")
                              .arg(runLetter(*selection_, shown_run), QString::number(run_mean, 'f', 2));
  const QString short_form =
      QString("%1: %2 of a fair share").arg(runLetter(*selection_, shown_run), QString::number(run_mean, 'f', 2));
  for (int run = 1; run < to_int(selection_->histories().size()); ++run) {
    if (!selection_->isNoiseTwin(run) || run == shown_run) continue;
    const double twin_mean = mean(run);
    if (std::isnan(twin_mean)) continue;
    const QString chance =
        QString("; noise twin %1: %2").arg(runLetter(*selection_, run), QString::number(twin_mean, 'f', 2));
    return {{}, {differs + chance, short_form + chance, short_form}};
  }
  return {{}, {differs, short_form}};
}

QString LoadDifferencePanel::status() const {
  const int run = comparedRun(*selection_);
  if (run < 0) return {};
  if (showsWeights()) return QString("weights of %1 against A").arg(runLabel(*selection_, run));
  const auto frame = comparedFrame(*selection_, run);
  if (!frame) return {};
  return timeStatus(frame->step, true) + QStringLiteral(", ") + runLabel(*selection_, run) + QString(" minus A");
}

void LoadDifferencePanel::refill() {
  if (!selection_->history()) return view_->setNotice(noDataYetNotice(*selection_));
  if (comparedRun(*selection_) < 0) return view_->setNotice(nothingToCompareNotice());
  rows_ = rows(comparedRun(*selection_));
  if (rows_.empty() && showsWeights())
    return view_->setNotice(
        "Weights are compared between two checkpoints that are run together, whose experts have the same shapes");
  if (rows_.empty())
    return view_->setNotice("The runs have no loads in common up to this step, or different numbers of experts");
  view_->setNotice({});
  const int columns = to_int(
      std::ranges::max_element(rows_, {}, [](const Row& row) { return row.difference.size(); })->difference.size());
  double limit = 1;  // the colours end at the power of two that reaches the largest difference
  for (const Row& row : rows_)
    for (const float value : row.difference)
      while (std::fabs(value) > limit) limit *= 2;
  const auto code_of = [&](float value) {
    if (showsWeights()) return scaleCode(logPosition(value, kMinWeightDifference));
    return divergingCode((value / limit + 1) / 2);
  };
  std::vector<std::uint8_t> codes;
  std::vector<int> layers;
  for (const Row& row : rows_) {
    layers.push_back(row.layer);
    for (int e = 0; e < columns; ++e)
      codes.push_back(code_of(e < std::ssize(row.difference) ? row.difference[e] : kNoValue));
  }
  view_->setCells(to_int(rows_.size()), columns, std::move(codes));
  view_->setWeights(showsWeights() ? sequentialWeights() : utilisationWeights());
  const bool dark = isDark(palette());
  view_->setLegend(showsWeights() ? weightLegend(dark) : differenceLegend(dark, limit));
  view_->setRowAxis(ticksOf(layers), QString(showsWeights() ? "layer, %1 against A" : "layer, %1 minus A")
                                         .arg(runLetter(*selection_, comparedRun(*selection_))));
  view_->setColumnAxis(integerTicks(0, columns - 1, std::max(2, view_->width() / 60)), "expert");
  markCurrent();
}

void LoadDifferencePanel::paintNumbers(QPainter& painter) const {
  view_->paintTexts(painter, view_->sizeFor(QStringLiteral("+0.00")), [this](int row, int e) {
    const std::vector<float>& values = rows_[row].difference;
    if (e >= std::ssize(values)) return QString();
    if (showsWeights()) return values[e] == 0 ? QStringLiteral("0") : formatPercent(values[e]);
    return signedShare(values[e]);
  });
}

QStringList LoadDifferencePanel::describe(int row, int column) const {
  if (row >= std::ssize(rows_)) return {};
  const std::int64_t layer = rows_[row].layer, expert = column;
  return showsWeights() ? readout({layer, expert}) : readout({rows_[row].step, layer, expert});
}

ValueTable LoadDifferencePanel::table() const {
  const int run = comparedRun(*selection_);
  if (showsWeights()) {
    ValueTable weights({"layer", "expert", "|W - W_A| / |W_A| [share]"});
    for (const Row& row : weightRows(run))
      for (std::size_t e = 0; e < row.difference.size(); ++e) weights.add(row.layer, e, row.difference[e]);
    return weights;
  }
  ValueTable table({"step", "layer", "expert", "load minus run A's [fair shares]:3", "load [fair shares]:3",
                    "in run A [fair shares]:3"});
  for (const Row& row : rows(run))
    for (std::size_t e = 0; e < row.difference.size(); ++e)
      table.add(row.step, row.layer, e, row.difference[e], row.run_load[e], row.a_load[e]);
  return table;
}

}  // namespace moescope
