#include "widgets/published_panel.h"

#include <cmath>

namespace moescope {
namespace {

using Fill = BandBars::Fill;
constexpr int kPublishedColor = 0, kModelColor = 1;

Fill fillOf(const BarComparison& bar) {
  const std::string_view standing = bar.standing;
  return standing == "fitted" ? Fill::hatched : standing == "predicted" ? Fill::outlined : Fill::dotted;
}

QString perSecond(double tokens) {
  return QString::number(tokens, 'f', 0);
}

QString bandText(const Band& band) {
  return QStringLiteral("%1-%2").arg(perSecond(band.low), perSecond(band.high));
}

}  // namespace

void fillHypotheses(QComboBox* box) {
  box->addItems({Panel::tr("H1: tokens split over TP"), Panel::tr("H2: tokens twice over TP")});
  box->setAccessibleName(Panel::tr("How the published runs are read"));
  box->setToolTip(
      Panel::tr("H1: tokens are split over the two tensor-parallel ranks; DeepEP then needs 0.2 ms a token "
                "of its own (assumed)\nH2: with DeepEP both ranks dispatch and compute every token, as "
                "the code of these runs reads\nWhich of them holds is not known."));
}

PublishedPanel::PublishedPanel(Selection* selection, QWidget* parent)
    : Panel(selection, tr("Published and modelled"), Provenance::modelled, parent) {
  hypothesis_ = new QComboBox(this);
  fillHypotheses(hypothesis_);
  addControl(hypothesis_);
  plot_ = new BandBars(this);
  plot_->setCaption(tr("tokens/s per GPU"));
  plot_->setLegend({{tr("published"), kPublishedColor, Fill::solid, false},
                    {tr("model, fitted to it"), kModelColor, Fill::hatched, false},
                    {tr("model, prediction"), kModelColor, Fill::outlined, false},
                    {tr("model, check (not fitted)"), kModelColor, Fill::dotted, false},
                    {tr("honest band"), 0, Fill::solid, true}});
  plot_->describe = [this](int row) { return describe(row); };
  addBody(plot_);
  fitted_ = new QLabel(this);
  fitted_->setWordWrap(true);
  addBody(fitted_, 0);
  connect(hypothesis_, &QComboBox::currentIndexChanged, this, [this] {
    compute();
    emit hypothesisChanged(hypothesis());
  });
  hypothesis_->setCurrentIndex(static_cast<int>(Hypothesis::h2));
}

Hypothesis PublishedPanel::hypothesis() const {
  return static_cast<Hypothesis>(std::max(0, hypothesis_->currentIndex()));
}

void PublishedPanel::setHypothesis(Hypothesis hypothesis) {
  hypothesis_->setCurrentIndex(static_cast<int>(hypothesis));
}

void PublishedPanel::compute() {
  bars_ = compare_with_published(hypothesis());
  parameters_ = fit_to_published(hypothesis());
  std::vector<BandBars::Row> rows;
  bar_of_row_.clear();
  const auto add = [&](int bar, BandBars::Row row) {
    rows.push_back(std::move(row));
    bar_of_row_.push_back(bar);
  };
  const double none = std::nan("");
  const auto h100_first = static_cast<int>(published_b200_runs().size()) + 1;  // after the predicted fourth bar
  for (int i = 0; i < static_cast<int>(bars_.size()); ++i) {
    const BarComparison& bar = bars_[static_cast<std::size_t>(i)];
    if (i == 0) add(-1, {tr("671B on 256 B200, routing forced round-robin"), {}, none, none, {}, true});
    if (i == h100_first) add(-1, {tr("671B on 512 H100: none of it was fitted"), {}, none, none, {}, true});
    QString name = QString::fromStdString(bar.name);
    if (std::isfinite(bar.published)) {
      add(i, {name, {{bar.published, kPublishedColor, Fill::solid}}, none, none, perSecond(bar.published), false});
      name.clear();
    }
    const QString figure = QStringLiteral("%1 (%2)").arg(perSecond(bar.modelled), bandText(bar.band));
    add(i, {name, {{bar.modelled, kModelColor, fillOf(bar)}}, bar.band.low, bar.band.high, figure, false});
  }
  plot_->setRows(std::move(rows));
  plot_->markDirty();
  const double network = hardware_profile("b200").network.value;
  fitted_->setText(
      tr("<b>Fitted</b> to the three B200 bars: standard network %1 GB/s (%2 of line rate), MXFP8 grouped GEMMs x %3, "
         "rest %4 ms/token. Three data, three parameters: that they come out validates nothing.")
          .arg(parameters_.standard_network_share * network, 0, 'f', 1)
          .arg(formatPercent(parameters_.standard_network_share))
          .arg(parameters_.mxfp8_speedup, 0, 'f', 2)
          .arg(parameters_.rest_ms, 0, 'f', 3));
}

QStringList PublishedPanel::describe(int row) const {
  const int place = row >= 0 && row < static_cast<int>(bar_of_row_.size()) ? bar_of_row_[row] : -1;
  if (place < 0) return {};
  const BarComparison& bar = bars_[static_cast<std::size_t>(place)];
  QStringList lines{QString::fromStdString(bar.name)};
  if (std::isfinite(bar.published))
    lines << tr("published: %1 tokens/s/GPU").arg(perSecond(bar.published));
  else
    lines << tr("published: none");
  lines << tr("modelled: %1, band %2").arg(perSecond(bar.modelled), bandText(bar.band));
  if (std::isfinite(bar.published))
    lines << tr("model / published - 1: %1").arg(formatPercent(bar.modelled / bar.published - 1));
  lines << tr("standing: %1").arg(QString::fromUtf8(bar.standing));
  return lines;
}

QString PublishedPanel::status() const {
  return tr("solid: published");
}

QString PublishedPanel::csv() const {
  QString text = QStringLiteral(
      "hypothesis,run,published [tokens/s/GPU],modelled [tokens/s/GPU],band low,band high,standing of the model\n");
  for (const BarComparison& bar : bars_)
    text += QStringLiteral("%1,\"%2\",%3,%4,%5,%6,%7\n")
                .arg(QString::fromUtf8(hypothesis_name(hypothesis())), QString::fromStdString(bar.name),
                     std::isfinite(bar.published) ? QString::number(bar.published) : QString())
                .arg(bar.modelled, 0, 'f', 2)
                .arg(bar.band.low, 0, 'f', 2)
                .arg(bar.band.high, 0, 'f', 2)
                .arg(QStringLiteral("\"%1\"").arg(QString::fromUtf8(bar.standing)));
  return text;
}

QString PublishedPanel::explain() const {
  QString sources;
  for (const auto runs : {published_b200_runs(), published_h100_runs()})
    for (const PublishedRun& run : runs)
      sources += QStringLiteral("<br>%1: %2 (%3)")
                     .arg(QString::fromUtf8(run.name), perSecond(run.tokens_per_second), QString::fromUtf8(run.source));
  return tr("<p><b>What was published, and what the step model says</b> about the same runs. <i>Solid</i>: published. "
            "<i>Hatched</i>: the model where it was fitted; three parameters to three bars, so these must agree and "
            "prove nothing. <i>Dashed outline</i>: a prediction, nobody has published this bar. <i>Dotted</i>: a check "
            "on other hardware that the fit never saw.</p>"
            "<p>The whisker is the band that the published runs leave open: standard network at 35 to 46 GB/s, MXFP8 "
            "grouped GEMMs x 1.2 to 1.5, everything but routed experts and all-to-all 0.50 to 0.67 ms a token. Bars "
            "may lie outside of it, where a fitted parameter does.</p>"
            "<p>Two readings of the published runs are possible and give different fits: H1, tokens are split over "
            "the two tensor-parallel ranks; H2, with DeepEP both dispatch and compute every token.</p>"
            "<p>Published, tokens/s/GPU:%1</p>")
      .arg(sources);
}

QVariantMap PublishedPanel::saveState() const {
  return {{QStringLiteral("hypothesis"), hypothesis_->currentIndex()}};
}

void PublishedPanel::restoreState(const QVariantMap& state) {
  hypothesis_->setCurrentIndex(std::clamp(state.value(QStringLiteral("hypothesis"), 1).toInt(), 0, 1));
}

}  // namespace moescope
