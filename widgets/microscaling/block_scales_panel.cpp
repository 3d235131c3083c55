#include "widgets/microscaling/block_scales_panel.h"

#include <QPainter>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "widgets/look/counted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/format_text.h"
#include "widgets/panel/operand_combos.h"
#include "widgets/panel/tensor_text.h"
#include "widgets/plots/matrix_plot.h"
#include "widgets/selection/compared_runs.h"

namespace moescope {

void Histogram::setBars(int first_category, std::vector<double> shares) {
  first_ = first_category;
  shares_ = std::move(shares);
  const double largest = shares_.empty() ? 0 : *std::ranges::max_element(shares_);
  const double next = niceRange(0, std::max(largest, 1e-3), false).high;
  if (next > top_share_ || next < 0.6 * top_share_) top_share_ = std::min(next, 1.0);
}

void Histogram::setCategoryTicks(std::vector<Tick> ticks) {
  ticks_ = std::move(ticks);
  for (Tick& tick : ticks_) tick.label.clear();
}

double Histogram::yOf(double category) const {
  const QRect plot = plotRect();
  return plot.bottom() + 1 - (category - first_) / std::max<double>(1, shares_.size()) * plot.height();
}

int Histogram::categoryAt(int y) const {
  const QRect plot = plotRect();
  const double share = (plot.bottom() + 0.5 - y) / std::max(1, plot.height());
  return first_ +
         std::clamp(static_cast<int>(std::floor(share * shares_.size())), 0, std::max(0, to_int(shares_.size()) - 1));
}

void Histogram::paintStatic(QPainter& painter) {
  const QRect plot = plotRect();
  std::vector<Tick> shares = linearTicks(0, top_share_, std::max(2, plot.width() / withType(40)));
  for (Tick& tick : shares) tick.label = withMinus(QString::number(tick.value * 100, 'g', 3));
  paintVerticalGrid(painter, shareAxis(), shares);
  paintBottomAxis(painter, shareAxis(), shares, {});
  std::vector<Tick> centred = ticks_;
  for (Tick& tick : centred) tick.value += 0.5;
  const Axis categories{.low = static_cast<double>(first_),
                        .high = static_cast<double>(first_ + shares_.size()),
                        .at_low = plot.bottom() + 1.0,
                        .at_high = plot.top() + 0.0};
  paintLeftAxis(painter, categories, centred, share_caption_);
}

void Histogram::paintData(QPainter& painter) {
  const QRect plot = plotRect();
  const QColor color(colors(palette()).plain_bar);
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    if (shares_[i] <= 0) continue;
    const double top = yOf(first_ + i + 1), bottom = yOf(first_ + i);
    const double gap = bottom - top > 4 ? 1 : 0;
    // Even small shares are visible.
    const double length = std::max(1.0, shareAxis().toPixel(shares_[i]) - plot.left());
    painter.fillRect(QRectF(plot.left(), top + gap / 2, length, bottom - top - gap), color);
    if (i < strong_.size() && strong_[i] > 0)
      painter.fillRect(
          QRectF(plot.left(), top + gap / 2, std::max(1.0, length * strong_[i] / shares_[i]), bottom - top - gap),
          QColor(colors(palette()).strong_bar));
    if (marked_ == first_ + static_cast<int>(i))
      paintPointer(painter, QPointF(plot.left() - 2, (top + bottom) / 2), false);
  }
}

QStringList Histogram::readoutAt(QPoint position) const {
  if (!describe || !plotRect().contains(position) || shares_.empty()) return {};
  return describe(categoryAt(position.y()));
}

namespace {

constexpr int kNanByte = 255, kBias = 127, kFewestRows = 10;
constexpr std::uint8_t kEmptyShareCode = 1;  // code of a measured scale that no block has
constexpr double kMinShare = 1e-4;           // low end of the logarithmic colour scale of shares, which ends at 1

double total(const std::array<std::uint32_t, 256>& blocks) {
  return std::accumulate(blocks.begin(), blocks.end(), 0.0);
}

// Returns a scale as text. Scales of NVFP4 and FP8 are not powers of two, so `byte` stands for a range of scales.
QString scaleText(const QuantFormat& format, int byte) {
  if (byte == kNanByte) return QString("scale NaN");
  return format.scale == QuantScale::power_of_two
             ? QString("scale %1 (byte %2)").arg(formatPowerOfTwo(byte - kBias)).arg(byte)
             : QString("scales from %1 to under %2")
                   .arg(formatPowerOfTwo(byte - kBias), formatPowerOfTwo(byte - kBias + 1));
}

std::uint8_t shareCode(double share) {
  return share <= 0 ? kNoDataCode : scaleCode(1 - std::log10(share) / std::log10(kMinShare));
}

// Ticks at powers of two for scale bytes.
std::vector<Tick> scaleTicks(int first_byte, int last_byte, int height) {
  auto ticks = powerOfTwoTicks(first_byte - kBias, last_byte - kBias, std::max(2, height / 24));
  for (Tick& tick : ticks) tick.value += kBias;
  return ticks;
}

}  // namespace

BlockScalesPanel::BlockScalesPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Block scales", Provenance::measured_here, parent) {
  auto* plots = new QWidget(this);
  auto* row = plainRow(plots, 0);
  waterfall_ = new TimeHeatMap(selection, this);
  waterfall_->refill = [this] { refillWaterfall(); };
  waterfall_->describe = [this](int byte, std::int64_t step) { return describe(byte, step); };
  waterfall_->fetch = [this](StepRange range, int bins) {
    const auto blocks = selection_->history()->scale_waterfall(selection_->tensor(), range, bins);
    std::vector<std::uint8_t> codes(blocks.size(), kNoDataCode);
    for (std::size_t column = 0; column < blocks.size(); column += 256) {
      const double all = std::accumulate(blocks.begin() + column, blocks.begin() + column + 256, 0.0);
      for (std::size_t byte = 0; byte < 256 && all > 0; ++byte)
        codes[column + byte] = std::max(kEmptyShareCode, shareCode(blocks[column + byte] / all));
    }
    return codes;
  };
  waterfall_->setWeights(sequentialWeights());
  waterfall_->setHeld(true);
  waterfall_->setAccessibleName("Block scales over steps");
  bars_ = new Histogram(this);
  bars_->refill = [this] { refillBars(); };
  bars_->describe = [this](int byte) { return describe(byte, selection_->step()); };
  waterfall_->figure = [this](int, std::int64_t step) { return scalesAt(step); };
  bars_->figureOf = [this](QPoint) { return scalesAt(selection_->step()); };
  bars_->setAccessibleName("Block scales at the cursor");
  row->addWidget(waterfall_, 3);
  row->addWidget(bars_, 1);
  connect(selection, &Selection::changed, bars_, &PlotFrame::markDirty);
  for (const auto part : {OperandCombo::tensor, OperandCombo::layer})
    addControl(new OperandCombo(selection, part, this));
  showAnswers([this] { return legend(); });
  addBody(plots);
  giveFocusTo(waterfall_);
}

void BlockScalesPanel::setLosses(const BlockLosses& losses) {
  losses_ = losses;
  bars_->markDirty();
  update();
}

LegendScale BlockScalesPanel::legend() const {
  LegendScale legend;
  if (hasLosses()) legend.swatches = {{QColor(colors(palette()).strong_bar), "\u2265 1/8 of the values lost"}};
  if (bars_->marked() >= 0)
    legend.swatches.push_back({QColor(colors(palette()).ink), "block in the microscope", LegendScale::Swatch::pointer});
  return legend;
}

// Names the first open run in which the operand has scales: ". Run B has them"; empty without such a run.
QString BlockScalesPanel::runWithScales() const {
  for (int run = 0; run < std::ssize(selection_->histories()); ++run) {
    const auto newest = selection_->histories()[run]->quant_frame_at(INT64_MAX);
    const QuantFrame* operand = newest ? findTensor(newest.get(), selection_->tensor()) : nullptr;
    if (operand && operand->format.scale != QuantScale::none)
      return QString(". Run %1 has them").arg(runLetter(*selection_, run));
  }
  return {};
}

QString BlockScalesPanel::notice() const {
  const History* history = selection_->history();
  if (!history || history->steps().empty()) return noDataYetNotice(*selection_);
  const auto newest = history->quant_frame_at(history->steps().last);
  const GemmClass gemm_class = selection_->tensor().gemm_class();
  if (!newest || std::ranges::find(newest->quants, gemm_class, &QuantFrame::gemm_class) == newest->quants.end())
    return noQuantizationNotice(history->info(), newest.get(), gemm_class);
  const QuantFrame* tensor = findTensor(newest.get(), selection_->tensor());
  if (tensor && tensor->format.scale == QuantScale::none)
    return QString("BF16 has no scales: %1%2").arg(placeName(selection_->tensor()), runWithScales());
  if (!tensor && !history->info().config_toml.empty())
    return QString("%1 is not quantized: choose another operand above").arg(placeName(selection_->tensor()));
  const auto counts_blocks = [](const QuantFrame& quant) {
    return std::ranges::any_of(quant.e8m0_blocks, [](std::uint32_t blocks) { return blocks > 0; });
  };
  const bool without_scales = history->info().config_toml.empty() && tensor && !counts_blocks(*tensor);
  if (!tensor || without_scales)
    return notInLogNotice(history->info(), QString("scales of %1").arg(placeName(selection_->tensor())));
  return {};
}

// Widens the axis to all exponents of the tensor at the cursor, at the newest step and at the first visible step, with
// a margin. Blocks of zeros have scale byte 0, far below all others: the status counts them.
void BlockScalesPanel::updateRows() {
  const QString key = QStringLiteral("%1:%2:%3")
                          .arg(reinterpret_cast<quintptr>(selection_->history()))
                          .arg(static_cast<int>(selection_->tensor().gemm_class()))
                          .arg(placeName(selection_->tensor()));
  int low = first_byte_, high = last_byte_;
  if (std::exchange(rows_of_, key) != key) {
    low = 255;
    high = 0;
  }
  for (const std::int64_t step : {selection_->step(), selection_->history()->steps().last, selection_->range().first}) {
    const auto frame = selection_->history()->quant_frame_at(step);
    const QuantFrame* quant = findTensor(frame.get(), selection_->tensor());
    for (int byte = 1; quant && byte < kNanByte; ++byte) {
      if (quant->e8m0_blocks[byte] == 0) continue;
      low = std::min(low, std::max(0, byte - 1));
      high = std::max(high, std::min(kNanByte - 1, byte + 1));
    }
  }
  while (high - low + 1 < kFewestRows && (low > 0 || high < kNanByte - 1)) {
    low = std::max(0, low - 1);
    high = std::min(kNanByte - 1, high + 1);
  }
  first_byte_ = low;
  last_byte_ = high;
}

FigureTarget BlockScalesPanel::scalesAt(std::int64_t step) const {
  return {.key = "e8m0_blocks", .layer = selection_->tensor().layer, .step = step, .quant = selection_->tensor()};
}

void BlockScalesPanel::refillWaterfall() {
  const QString reason = notice();
  waterfall_->setNotice(reason);
  bars_->setVisible(reason.isEmpty());
  if (!reason.isEmpty()) return;
  updateRows();
  LegendScale legend{
      .lut = viridisLut(isDark(palette())), .low = "\u2264 0.01 %", .high = "100 %", .caption = "blocks"};
  legend.lut[kNoDataCode] = palette().base().color().rgb();
  legend.lut[kEmptyShareCode] = palette().base().color().rgb();
  waterfall_->setLegend(legend);
  waterfall_->setSource(rows_of_, 256);
  waterfall_->setVisibleRows(first_byte_, last_byte_);
  waterfall_->setRowAxis(scaleTicks(first_byte_, last_byte_, waterfall_->height()), "scale 2ᵏ", true);
}

void BlockScalesPanel::refillBars() {
  const QString reason = notice();
  bars_->setNotice(reason);
  if (!reason.isEmpty()) return;
  updateRows();
  const auto frame = selection_->quantFrame();
  const QuantFrame* quant = findTensor(frame.get(), selection_->tensor());
  std::vector<double> shares(last_byte_ - first_byte_ + 1, 0);
  const double all = quant ? total(quant->e8m0_blocks) : 0;
  for (std::size_t i = 0; i < shares.size() && all > 0; ++i) shares[i] = quant->e8m0_blocks[first_byte_ + i] / all;
  std::vector<double> losing(shares.size(), 0);
  for (std::size_t i = 0; i < losing.size() && hasLosses(); ++i) {
    const std::size_t byte = first_byte_ + i;
    if (losses_.blocks[byte] > 0) losing[i] = shares[i] * losses_.losing[byte] / losses_.blocks[byte];
  }
  bars_->setBars(first_byte_, std::move(shares));
  bars_->setStrong(std::move(losing), hasLosses() ? losses_.shown : -1);
  bars_->setCategoryTicks(scaleTicks(first_byte_, last_byte_, bars_->height()));
  bars_->setShareCaption("% of blocks");
}

QStringList BlockScalesPanel::describe(int byte, std::int64_t step) const {
  const auto frame = selection_->history()->quant_frame_at(step);
  const QuantFrame* quant = findTensor(frame.get(), selection_->tensor());
  if (!quant) return {"not measured at this step"};
  const double all = total(quant->e8m0_blocks), blocks = quant->e8m0_blocks[byte];
  QStringList lines{
      QString("step %1, %2").arg(formatCount(frame->step), scaleText(quant->format, byte)),
      QString("%1, %2").arg(countedText(std::llround(blocks), "block"), formatPercent(all > 0 ? blocks / all : 0))};
  if (hasLosses() && losses_.blocks[byte] > 0)
    lines << QString("%1 of %2 lose 1/8 of their values or more")
                 .arg(losses_.losing[byte])
                 .arg(countedText(losses_.blocks[byte], "sampled block"));
  return lines;
}

// Leaves out zero and NaN.
Panel::Answer BlockScalesPanel::answer() const {
  const auto frame = selection_->quantFrame();
  const QuantFrame* quant = findTensor(frame.get(), selection_->tensor());
  if (!quant) return {};
  int low = kNanByte, high = -1, commonest = -1;
  for (int byte = 1; byte < kNanByte; ++byte) {
    if (quant->e8m0_blocks[byte] == 0) continue;
    low = std::min(low, byte);
    high = byte;
    if (commonest < 0 || quant->e8m0_blocks[byte] > quant->e8m0_blocks[commonest]) commonest = byte;
  }
  if (commonest < 0) return {};
  const QString share = formatPercent(quant->e8m0_blocks[commonest] / total(quant->e8m0_blocks));
  const QString usual = formatPowerOfTwo(commonest - kBias);
  const QString question = "Which scales do the blocks have?";
  if (low == high) return {question, {QString("All have the scale %1").arg(usual)}};
  const QString range = QString("From %1 to %2").arg(formatPowerOfTwo(low - kBias), formatPowerOfTwo(high - kBias));
  const QString commonest_text = QString("; %1 of the blocks have %2").arg(share, usual);
  const int losing = std::accumulate(losses_.losing.begin(), losses_.losing.end(), 0);
  if (hasLosses() && losing > 0) {
    const QString lost = formatPercent(static_cast<double>(losing) / losses_.sampled);
    const QString losers = QString("%1 of the blocks lose 1/8 of their values or more").arg(lost);
    return {"How many blocks lose values?",
            {losers, QString("%1 of the blocks lose \u2265 1/8 of their values").arg(lost)}};
  }
  return {question, {range + commonest_text, range}};
}

QString BlockScalesPanel::status() const {
  const auto frame = selection_->quantFrame();
  const QuantFrame* quant = findTensor(frame.get(), selection_->tensor());
  if (!quant) return {};
  return QString("%1, %2, blocks of zeros %3, NaN blocks %4, largest value %5")
      .arg(timeStatus(frame->step, true), formatLabel(quant->format), formatCount(quant->e8m0_blocks[0]),
           formatCount(quant->e8m0_blocks[kNanByte]), formatValue(quant->amax, 3));
}

ValueTable BlockScalesPanel::table() const {
  ValueTable table({"step", "layer", "tensor", "format", "exponent + 127", "scale [2^k]", "blocks"});
  const auto frame = selection_->quantFrame();
  const OperandPlace& tensor = selection_->tensor();
  const QuantFrame* quant = findTensor(frame.get(), tensor);
  const std::string name = (gemmClassLabel(tensor.gemm_class()) + QLatin1Char(' ') + tensorName(tensor)).toStdString();
  for (int byte = 0; quant && byte < 256; ++byte)
    if (quant->e8m0_blocks[byte] > 0)
      table.add(frame->step, tensor.layer, name, quant->format.name, byte,
                byte == kNanByte ? table_value(std::string("NaN")) : table_value(byte - kBias),
                quant->e8m0_blocks[byte]);
  return table;
}

}  // namespace moescope
