#include "widgets/cluster/published_and_modelled_panel.h"

#include <cmath>

#include "widgets/panel/csv.h"
#include "widgets/panel/flat_combo.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {
namespace {

using Fill = BandBars::Fill;
constexpr int kPublishedColor = BandBars::kPlain, kModelColor = 0;

Fill fillOf(const BarComparison& bar) {
  const std::string_view standing = bar.standing;
  return standing == "fitted" ? Fill::hatched : standing == "predicted" ? Fill::outlined : Fill::dotted;
}

QString bandText(const Band& band) {
  return QString::fromUtf8("%1\u2013%2").arg(formatCount(std::round(band.low)), formatCount(std::round(band.high)));
}

QString signedPercent(double share) {
  const QString sign = share > 0 ? QStringLiteral("+") : QString();
  return QStringLiteral("%1%2 %").arg(sign, withMinus(QString::number(100 * share, 'f', 0)));
}

// Returns the deviation of each run to which the model was not fitted.
QString checksText(const std::vector<BarComparison>& bars) {
  QStringList checks;
  for (const BarComparison& bar : bars)
    if (fillOf(bar) == Fill::dotted)
      checks << QStringLiteral("%1 %2").arg(QString::fromStdString(bar.name), QString::fromStdString(bar.verdict()));
  return checks.join(QStringLiteral("; ")) + QLatin1Char('.');
}

QString openText(const StepConfig& config) {
  QString lines;
  for (const OpenNumber& open : open_numbers(config))
    lines += QStringLiteral("<br>%1: %2 to %3 %4 (%5)")
                 .arg(QString::fromUtf8(open.name), formatValue(open.slow, 3), formatValue(open.fast, 3),
                      QString::fromUtf8(open.unit), QString::fromUtf8(open.reason));
  return lines;
}

}  // namespace

void fillHypotheses(QComboBox* box) {
  box->addItems({"H1: tokens split over TP", "H2: tokens twice over TP"});
  box->setAccessibleName("Reading of the published runs");
  box->setToolTip(
      "H1: tokens are split over the two tensor-parallel ranks; DeepEP then needs 0.2 ms a token of its own "
      "(assumed)\nH2: with DeepEP both ranks dispatch and compute every token, as the code of these runs suggests\nIt "
      "is not known which reading is right.");
}

PublishedAndModelledPanel::PublishedAndModelledPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Published and modelled", Provenance::modelled, parent) {
  showAnswers();
  hypothesis_ = new FlatCombo(this);
  fillHypotheses(hypothesis_);
  addControl(hypothesis_);
  plot_ = new BandBars(this);
  plot_->setCaption("tokens/s a GPU");
  plot_->setLegend({{"published", kPublishedColor, Fill::solid, false},
                    {"model: fitted", kModelColor, Fill::hatched, false},
                    {"predicted", kModelColor, Fill::outlined, false},
                    {"checked", kModelColor, Fill::dotted, false},
                    {"uncertainty band", 0, Fill::solid, true}});
  plot_->describe = [this](int row) { return describe(row); };
  addBody(plot_);
  connect(hypothesis_, &QComboBox::currentIndexChanged, this, [this] {
    compute();
    emit hypothesisChanged(hypothesis());
  });
  hypothesis_->setCurrentIndex(static_cast<int>(Hypothesis::h2));
  keepState("hypothesis", hypothesis_);
}

void PublishedAndModelledPanel::compute() {
  bars_ = compare_with_published(hypothesis());
  parameters_ = fit_to_published(hypothesis());
  std::vector<BandBars::Row> rows;
  bar_of_row_.clear();
  const auto add = [&](int bar, BandBars::Row row) {
    rows.push_back(std::move(row));
    bar_of_row_.push_back(bar);
  };
  const double none = std::nan("");
  const auto h100_first = static_cast<int>(published_b200_runs().size()) + 1;  // after the B200 runs and the prediction
  for (int i = 0; i < static_cast<int>(bars_.size()); ++i) {
    const BarComparison& bar = bars_[i];
    if (i == 0) add(-1, {"671B on 256 B200s, forced round-robin routing", {}, none, none, {}, true});
    if (i == h100_first) add(-1, {"671B on 512 H100s, not used in the fit", {}, none, none, {}, true});
    QString name = QString::fromStdString(bar.name);
    if (std::isfinite(bar.published)) {
      const QString figure = QString::number(bar.published, 'f', 0);
      add(i, {name, {{bar.published, kPublishedColor, Fill::solid}}, none, none, figure});
      name.clear();
    }
    const bool check = fillOf(bar) == Fill::dotted;
    const QString error = check ? signedPercent(bar.error()) : QString();
    const QString figure =
        QStringList{QString::number(bar.modelled, 'f', 0), error, bandText(bar.band)}.join(QLatin1Char('\t'));
    add(i, {name, {{bar.modelled, kModelColor, fillOf(bar)}}, bar.band.low, bar.band.high, figure});
  }
  plot_->setRows(std::move(rows));
  plot_->markDirty();
  update();  // repaints the answer as well
}

QString PublishedAndModelledPanel::fittedText() const {
  return QString("standard network %1 GB/s, MXFP8 \u00d7 %2, rest %3 ms")
      .arg(parameters_.standard_network_share * hardware_profile("b200").network.value, 0, 'f', 1)
      .arg(parameters_.mxfp8_speedup, 0, 'f', 2)
      .arg(parameters_.rest_ms, 0, 'f', 3);
}

// The answer has the deviation of each run to which the model was not fitted.
Panel::Answer PublishedAndModelledPanel::answer() const {
  QStringList errors, errors_and_bands;
  for (const BarComparison& bar : bars_)
    if (fillOf(bar) == Fill::dotted) {
      errors << signedPercent(bar.error());
      errors_and_bands << errors.back() + (bar.in_band() ? QString(" (inside the band)") : QString(" (outside it)"));
    }
  const QString on = QString("On H100s, not fitted: %1").arg(errors_and_bands.join(" and "));
  return {"Does the model hold?",
          {QString("%1 %2").arg(checksText(bars_), QString::fromStdString(pair_verdict())), on,
           QString("%1 on H100s").arg(errors.join(" and "))}};
}

QStringList PublishedAndModelledPanel::describe(int row) const {
  const int place = row >= 0 && row < static_cast<int>(bar_of_row_.size()) ? bar_of_row_[row] : -1;
  if (place < 0) return {};
  const BarComparison& bar = bars_[place];
  QStringList lines{QString::fromStdString(bar.name)};
  lines << (std::isfinite(bar.published) ? QString("published: %1 tokens/s/GPU").arg(bar.published, 0, 'f', 0)
                                         : QString("published: none"));
  lines << QString("modelled: %1, band %2").arg(QString::number(bar.modelled, 'f', 0), bandText(bar.band));
  if (std::isfinite(bar.published))
    lines << QString("model / published - 1: %1").arg(QString::fromStdString(bar.verdict()));
  lines << QString("kind of model value: %1").arg(QString::fromUtf8(bar.standing));
  return lines;
}

QString PublishedAndModelledPanel::csv() const {
  QString text = QStringLiteral(
      "hypothesis,run,published [tokens/s/GPU],modelled [tokens/s/GPU],band low,band high,standing of the "
      "model,error (share),in the band,verdict\n");
  for (const BarComparison& bar : bars_)
    text += csvRow(hypothesis_name(hypothesis()), csvField(QString::fromStdString(bar.name)),
                   std::isfinite(bar.published) ? QString::number(bar.published) : QString(),
                   QString::number(bar.modelled, 'f', 2), QString::number(bar.band.low, 'f', 2),
                   QString::number(bar.band.high, 'f', 2), csvField(bar.standing),
                   std::isfinite(bar.published) ? digits(bar.error(), 4) : QString(),
                   std::isfinite(bar.published) ? QString::number(bar.in_band()) : QString(),
                   std::isfinite(bar.published) ? csvField(QString::fromStdString(bar.verdict())) : QString());
  return text;
}

QString PublishedAndModelledPanel::explain() const {
  QString sources;
  for (const auto runs : {published_b200_runs(), published_h100_runs()})
    for (const PublishedRun& run : runs)
      sources += QStringLiteral("<br>%1: %2 (%3)")
                     .arg(QString::fromUtf8(run.name), QString::number(run.tokens_per_second, 'f', 0),
                          QString::fromUtf8(run.source));
  return explanation({sources, openText(published_b200_config(true, AllToAll::deep_ep)),
                      openText(published_h100_config(AllToAll::standard)),
                      QString::fromStdString(pair_network(hypothesis())), fittedText()});
}

}  // namespace moescope
