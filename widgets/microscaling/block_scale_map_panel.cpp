#include "widgets/microscaling/block_scale_map_panel.h"

#include <QGridLayout>
#include <QKeyEvent>
#include <algorithm>
#include <bit>
#include <cmath>

#include "core/files/text/words.h"
#include "widgets/look/counted_text.h"
#include "widgets/look/tokens.h"
#include "widgets/panel/format_text.h"
#include "widgets/panel/tensor_text.h"

namespace moescope {
namespace {

constexpr std::size_t kMaxValues = std::size_t{2} << 20;  // limit on the values read for one picture: about 5 ms
// Numbers of neighbouring columns and blocks that are drawn together, since they are in the same memory page of the
// file.
constexpr std::size_t kColumnRun = 64, kBlockRun = 32;
constexpr std::uint8_t kZeroCode = 1, kFirstCode = 2;  // blocks of zeros have their own colour
constexpr std::size_t kMinVisible = 4;
constexpr int kOutlierOctaves = 2;  // octaves above the usual scale, here four times that scale

// Returns the median scale without zeros and NaN; -1 if there are no other scales.
int medianScale(std::vector<std::uint8_t> scales) {
  std::erase_if(scales, [](std::uint8_t scale) { return scale == 0 || scale == 255; });
  if (scales.empty()) return -1;
  const auto middle = scales.begin() + scales.size() / 2;
  std::ranges::nth_element(scales, middle);
  return *middle;
}

std::uint32_t magnitudeBits(float v) {
  return std::bit_cast<std::uint32_t>(v) & 0x7FFFFFFF;
}

}  // namespace

void ScaleMapCells::wheelEvent(QWheelEvent* event) {
  const QRect area = cellsRect();
  const QPointF at = event->position();
  if (event->modifiers() & Qt::ShiftModifier) {
    // Some platforms turn Shift+wheel into a sideways wheel.
    const QPoint delta = event->angleDelta();
    emit scrolled(-(delta.x() ? delta.x() : delta.y()) / 1200.0);
  } else {
    emit zoomed(std::clamp((at.y() - area.top()) / std::max(1, area.height()), 0.0, 1.0),
                std::clamp((at.x() - area.left()) / std::max(1, area.width()), 0.0, 1.0),
                std::pow(0.75, event->angleDelta().y() / 120.0));
  }
  event->accept();
}

void ScaleMapCells::keyPressEvent(QKeyEvent* event) {
  const int key = event->key();
  if (key == Qt::Key_Home) return emit fitted();
  if (key == Qt::Key_Plus || key == Qt::Key_Equal) return emit zoomed(0.5, 0.5, 0.75);
  if (key == Qt::Key_Minus) return emit zoomed(0.5, 0.5, 1 / 0.75);
  MatrixPlot::keyPressEvent(event);
}

std::size_t BlockScaleMapPanel::Side::shown() const {
  const std::size_t stride = run * step, remainder = visible % stride;
  return visible / stride * run + std::min(remainder, run);
}

std::size_t BlockScaleMapPanel::Side::at(std::size_t cell) const {
  return first + cell / run * run * step + cell % run;
}

void BlockScaleMapPanel::Side::limit(std::size_t max_shown) {
  step = 1;
  while (shown() > std::max<std::size_t>(1, max_shown) && step < visible) ++step;
}

void BlockScaleMapPanel::Side::zoom(double share, double factor) {
  const double wanted_count = std::max(visible * factor, static_cast<double>(kMinVisible));
  const auto next = std::min(size, static_cast<std::size_t>(std::lround(wanted_count)));
  const double fixed = first + share * visible;
  const double begin = fixed - share * next;
  first = std::min(static_cast<std::size_t>(std::max(0.0, std::round(begin))), size - next);
  visible = next;
}

BlockScaleMapPanel::BlockScaleMapPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Block scale map", Provenance::measured_here, parent) {
  axis_box_ = makeChoice({blockAxisLabel(BlockAxis::row), blockAxisLabel(BlockAxis::column)}, "Block axis",
                         "Direction of the blocks: along the dimension that the matrix product contracts");
  connect(axis_box_, &QComboBox::activated, this, [this](int i) { emit axisChosen(static_cast<BlockAxis>(i)); });
  slice_box_ = new QSpinBox(this);
  slice_box_->setAccessibleName("Slice");
  slice_box_->setToolTip("Which matrix of a tensor with more than two dimensions, an expert for instance");
  slice_box_->setPrefix("slice ");
  connect(slice_box_, &QSpinBox::valueChanged, this, [this](int i) { emit sliceChosen(i); });
  addControl(slice_box_);
  addControl(axis_box_);
  slice_box_->hide();

  auto* body = new QWidget(this);
  auto* grid = new QGridLayout(body);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setSpacing(0);
  cells_ = new ScaleMapCells(body);
  cells_->setAccessibleName(title());
  vertical_ = new QScrollBar(Qt::Vertical, body);
  horizontal_ = new QScrollBar(Qt::Horizontal, body);
  grid->addWidget(cells_, 0, 0);
  grid->addWidget(vertical_, 0, 1);
  grid->addWidget(horizontal_, 1, 0);
  showAnswers([this] { return legend(); });
  addBody(body);
  cells_->setLegendElsewhere();
  giveFocusTo(cells_);
  cells_->setNotice(noTensorNotice());
  cells_->setHatched(kNoDataCode);
  cells_->setWeights(sequentialWeights());
  cells_->refill = [this] { refill(); };
  cells_->describe = [this](int row, int column) { return describe(row, column); };
  cells_->decorate = [this](QPainter& painter) { paintGroups(painter); };
  connect(cells_, &MatrixPlot::cellChosen, this, &BlockScaleMapPanel::choose);
  connect(cells_, &ScaleMapCells::fitted, this, &BlockScaleMapPanel::fit);
  connect(cells_, &ScaleMapCells::zoomed, this, [this](double row, double column, double factor) {
    if (!source_.valid()) return;
    rows_.zoom(row, factor);
    columns_.zoom(column, factor);
    syncScrollBars();
    cells_->markDirty();
  });
  connect(cells_, &ScaleMapCells::scrolled, this, [this](double widths) {
    horizontal_->setValue(horizontal_->value() + static_cast<int>(widths * columns_.visible));
  });
  connect(vertical_, &QScrollBar::valueChanged, this, [this](int first) {
    rows_.first = first;
    cells_->markDirty();
  });
  connect(horizontal_, &QScrollBar::valueChanged, this, [this](int first) {
    columns_.first = first;
    cells_->markDirty();
  });
  syncScrollBars();
}

void BlockScaleMapPanel::setSource(const TensorSource& source, std::size_t slice) {
  source_ = source;
  slice_ = slice;
  has_current_ = false;
  const QSignalBlocker quiet(slice_box_);
  slice_box_->setRange(0, std::max(0, to_int(std::min<std::size_t>(source.slices(), INT_MAX)) - 1));
  slice_box_->setSuffix(QString(" of %1").arg(source.slices()));
  slice_box_->setValue(to_int(slice));
  slice_box_->setVisible(source.slices() > 1);
  setSides();
}

void BlockScaleMapPanel::setFormat(const OperandFormat& format, BlockAxis axis) {
  const bool same_blocks = block_size(format) == block_size(format_) && axis == axis_;
  format_ = format;
  axis_ = axis;
  axis_box_->setCurrentIndex(static_cast<int>(axis));
  if (!same_blocks) return setSides();
  low_ = 0;
  high_ = -1;
  cells_->markDirty();
}

void BlockScaleMapPanel::setSides() {
  has_current_ = false;
  low_ = 0;
  high_ = -1;
  outliers_.clear();
  const std::size_t block = block_size(format_);
  rows_ = {axis_ == BlockAxis::row ? source_.rows() : source_.blocksDown(block)};
  columns_ = {axis_ == BlockAxis::row ? (source_.cols() + block - 1) / block : source_.cols()};
  columns_.run = axis_ == BlockAxis::row ? kBlockRun : kColumnRun;
  cells_->setNotice(source_.valid() ? QString() : noTensorNotice());
  fit();
}

void BlockScaleMapPanel::fit() {
  for (Side* side : {&rows_, &columns_}) {
    side->first = 0;
    side->visible = side->size;
  }
  syncScrollBars();
  cells_->markDirty();
  update();
}

void BlockScaleMapPanel::syncScrollBars() {
  const auto sync = [](QScrollBar* bar, const Side& side) {
    const QSignalBlocker quiet(bar);
    bar->setRange(0, to_int(side.size - side.visible));
    bar->setPageStep(to_int(side.visible));
    bar->setSingleStep(std::max(1, to_int(side.visible / 20)));
    bar->setValue(to_int(side.first));
    bar->setVisible(side.visible < side.size);
  };
  sync(vertical_, rows_);
  sync(horizontal_, columns_);
}

void BlockScaleMapPanel::thin() {
  const QSize pixels = cells_->size() * cells_->devicePixelRatioF();
  const std::size_t block = block_size(format_);
  columns_.limit(std::max(1, pixels.width()));
  const std::size_t row_values = std::max<std::size_t>(1, columns_.shown()) * block;
  const std::size_t affordable = std::max<std::size_t>(1, kMaxValues / row_values);
  rows_.limit(std::min(static_cast<std::size_t>(std::max(1, pixels.height())), affordable));
}

void BlockScaleMapPanel::scalesAlongRows(std::vector<std::uint8_t>& codes) const {
  const std::size_t block = block_size(format_);
  const std::size_t shown = columns_.shown(), run = columns_.step == 1 ? shown : columns_.run;
  std::vector<float> values(run * block);
  for (std::size_t i = 0; i < rows_.shown(); ++i)
    for (std::size_t j = 0; j < shown; j += run) {
      const std::size_t begin = columns_.at(j) * block;
      const std::size_t end = std::min(begin + std::min(run, shown - j) * block, source_.cols());
      source_.readRow(slice_, rows_.at(i), begin, end - begin, values.data());
      for (std::size_t col = begin; col < end; col += block) {
        std::uint32_t amax = 0;
        for (std::size_t k = col; k < std::min(col + block, end); ++k)
          amax = std::max(amax, magnitudeBits(values[k - begin]));
        codes.push_back(scaleOf(amax, rows_.at(i), col / block));
      }
    }
}

void BlockScaleMapPanel::scalesDownColumns(std::vector<std::uint8_t>& codes) const {
  const std::size_t block = block_size(format_);
  const std::size_t shown = columns_.shown();
  std::vector<float> values(shown);
  std::vector<std::uint32_t> amax(shown);
  for (std::size_t i = 0; i < rows_.shown(); ++i) {
    std::fill(amax.begin(), amax.end(), 0);
    const auto [first, last] = source_.blockRows(rows_.at(i), block);
    for (std::size_t row = first; row < last; ++row) {
      for (std::size_t j = 0; j < shown; j += columns_.run) {
        const std::size_t count = std::min(columns_.run, shown - j);
        source_.readRow(slice_, row, columns_.at(j), count, values.data() + j);
      }
      for (std::size_t j = 0; j < shown; ++j) amax[j] = std::max(amax[j], magnitudeBits(values[j]));
    }
    for (std::size_t j = 0; j < shown; ++j) codes.push_back(scaleOf(amax[j], columns_.at(j), rows_.at(i)));
  }
}

// Returns the E8M0 byte of a block; for NVFP4 and FP8 the byte of the largest power of two up to its scale.
std::uint8_t BlockScaleMapPanel::scaleOf(std::uint32_t amax_bits, std::size_t line, std::size_t block) const {
  const float shared_amax = source_.sharedAmax(slice_, format_, axis_, line, block);
  return block_scale(format_, std::bit_cast<float>(amax_bits), shared_amax).exponent;
}

std::vector<std::uint8_t> BlockScaleMapPanel::scales() const {
  std::vector<std::uint8_t> codes;
  codes.reserve(rows_.shown() * columns_.shown());
  axis_ == BlockAxis::row ? scalesAlongRows(codes) : scalesDownColumns(codes);
  return codes;
}

std::uint8_t BlockScaleMapPanel::cellCode(std::uint8_t scale) const {
  if (scale == 255) return kNoDataCode;
  if (scale == 0) return kZeroCode;
  const double position = high_ > low_ ? static_cast<double>(scale - 127 - low_) / (high_ - low_) : 0.5;
  return static_cast<std::uint8_t>(kFirstCode + std::lround(std::clamp(position, 0.0, 1.0) * (255 - kFirstCode)));
}

LegendScale BlockScaleMapPanel::legend() const {
  LegendScale legend{
      .lut = viridisLut(isDark(palette())), .low = {}, .high = {}, .caption = "scale", .first_code = kFirstCode};
  if (!source_.valid()) return legend;
  legend.lut[kZeroCode] = isDark(palette()) ? qRgb(0, 0, 0) : qRgb(255, 255, 255);
  if (high_ < low_) return legend;
  if (has_current_)
    legend.swatches = {{QColor(colors(palette()).ink), "block in the microscope", LegendScale::Swatch::frame}};
  legend.low = formatPowerOfTwo(low_);
  legend.high = formatPowerOfTwo(high_);
  return legend;
}

void BlockScaleMapPanel::refill() {
  if (!source_.valid()) return;
  thin();
  std::vector<std::uint8_t> codes = scales();
  for (const std::uint8_t code : codes) {
    if (code == 0 || code == 255) continue;
    const int k = code - 127;
    if (high_ < low_) low_ = high_ = k;
    low_ = std::min(low_, k);
    high_ = std::max(high_, k);
  }
  findOutliers(codes);
  for (std::uint8_t& code : codes) code = cellCode(code);
  cells_->setLegend(legend());
  cells_->setCells(to_int(rows_.shown()), to_int(columns_.shown()), std::move(codes));
  setAxes();
  cells_->setCurrent(has_current_ ? shownAt(rows_, current_row_) : -1,
                     has_current_ ? shownAt(columns_, current_column_) : -1);
}

// Finds outlier columns, but only while the whole tensor is visible.
void BlockScaleMapPanel::findOutliers(const std::vector<std::uint8_t>& scales) {
  if (columns_.visible < columns_.size || rows_.visible < rows_.size) return;
  outliers_.clear();
  compared_step_ = rows_.step * columns_.step;
  const std::size_t columns = columns_.shown(), rows = rows_.shown();
  std::vector<int> medians;
  std::vector<std::uint8_t> usual;
  for (std::size_t column = 0; column < columns; ++column) {
    std::vector<std::uint8_t> column_scales;
    for (std::size_t row = 0; row < rows; ++row) column_scales.push_back(scales[row * columns + column]);
    medians.push_back(medianScale(std::move(column_scales)));
    if (medians.back() >= 0) usual.push_back(static_cast<std::uint8_t>(medians.back()));
  }
  const int middle = medianScale(std::move(usual));
  for (std::size_t column = 0; column < columns && middle >= 0; ++column)
    if (medians[column] - middle >= kOutlierOctaves) outliers_.push_back(to_int(columns_.at(column)));
  update();  // repaints the answer
}

Panel::Answer BlockScaleMapPanel::answer() const {
  if (!source_.valid() || high_ < low_) return {};
  const QString drawn =
      compared_step_ > 1 ? QString(" (in a sample: 1 of %1 blocks)").arg(formatCount(compared_step_)) : QString();
  if (low_ == high_)
    return {{}, {QString("All blocks with values have the scale %1").arg(formatPowerOfTwo(low_)) + drawn}};
  const QString range = QString("scales from %1 to %2").arg(formatPowerOfTwo(low_), formatPowerOfTwo(high_));
  if (outliers_.empty())
    return {{}, {QString("No outlier channels; %1").arg(range) + drawn, "No outlier channels" + drawn}};
  const QString places =
      axis_ == BlockAxis::row ? QString("Outlier channels in blocks %1") : QString("Outlier channels %1");
  const QString count = countedText(outliers_.size(), "outlier channel");
  const QString channels =
      axis_ == BlockAxis::row ? "Outlier channels in " + countedText(outliers_.size(), "block") : count;
  return {{},
          {places.arg(QString::fromStdString(listed(outliers_))) + drawn,
           places.arg(QString::fromStdString(listed(outliers_, 2))), channels}};
}

std::vector<Tick> BlockScaleMapPanel::sideTicks(const Side& side, int max_ticks) const {
  std::vector<Tick> ticks;
  const double last = side.first + side.visible - 1;
  for (const Tick& tick : integerTicks(side.first, last, max_ticks)) {
    const int cell = shownAt(side, static_cast<std::size_t>(tick.value));
    if (cell >= 0) ticks.push_back({static_cast<double>(cell), tick.label});
  }
  return ticks;
}

// Returns ticks with the number of each expert at its first row, except ticks too close to the tick before.
std::vector<Tick> BlockScaleMapPanel::expertTicks(int max_ticks) const {
  std::vector<Tick> ticks;
  const std::vector<std::size_t>& groups = source_.rowGroups();
  const double min_distance = static_cast<double>(cells_->rows()) / max_ticks;
  for (std::size_t g = 0; g + 1 < groups.size(); ++g) {
    if (groups[g] == groups[g + 1]) continue;
    const int cell = shownAt(rows_, firstCellOf(g));
    if (cell >= 0 && (ticks.empty() || cell - ticks.back().value >= min_distance))
      ticks.push_back({static_cast<double>(cell), QString("e%1").arg(g)});
  }
  return ticks;
}

// Returns the row of the map in which the rows of a group begin.
std::size_t BlockScaleMapPanel::firstCellOf(std::size_t group) const {
  const std::size_t row = source_.rowGroups()[group];
  return axis_ == BlockAxis::row ? row : source_.blockAt(row, block_size(format_));
}

// Paints a line above the first row of every expert.
void BlockScaleMapPanel::paintGroups(QPainter& painter) const {
  if (!source_.valid() || !source_.grouped()) return;
  const std::vector<std::size_t>& groups = source_.rowGroups();
  painter.setPen(palette().base().color());
  for (std::size_t g = 1; g + 1 < groups.size(); ++g) {
    if (groups[g] == groups[g + 1]) continue;
    const int cell = shownAt(rows_, firstCellOf(g));
    if (cell <= 0) continue;
    const double y = cells_->cellRect(cell, 0).top();
    painter.drawLine(QPointF(cells_->cellsRect().left(), y), QPointF(cells_->cellsRect().right(), y));
  }
}

void BlockScaleMapPanel::setAxes() {
  const bool along_rows = axis_ == BlockAxis::row;
  const QString blocks = QString("block of %1").arg(block_size(format_));
  const int most_rows = std::max(2, cells_->height() / 32);
  if (source_.grouped())
    cells_->setRowAxis(expertTicks(std::max(2, cells_->height() / 18)),
                       along_rows ? QString("row, by expert") : QString("%1, by expert").arg(blocks));
  else
    cells_->setRowAxis(sideTicks(rows_, most_rows), along_rows ? QString("row") : blocks);
  QString across = along_rows ? blocks : QString("column");
  if (const std::size_t step = rows_.step * columns_.step; step > 1)
    across += QString(";  1 in %1 is drawn").arg(formatCount(step));
  cells_->setColumnAxis(sideTicks(columns_, std::max(2, cells_->width() / 56)), across);
}

int BlockScaleMapPanel::shownAt(const Side& side, std::size_t position) const {
  if (position < side.first || position >= side.first + side.visible) return -1;
  const std::size_t offset = position - side.first, stride = side.run * side.step;
  return to_int(offset / stride * side.run + std::min(offset % stride, side.run - 1));
}

QStringList BlockScaleMapPanel::describe(int row, int column) const {
  const auto [line, index] = blockAt(row, column);
  const bool along_rows = axis_ == BlockAxis::row;
  const std::size_t size = block_size(format_);
  const std::size_t first = along_rows ? line : source_.blockRows(index, size).first;
  const BlockAnatomy block = block_anatomy(format_, source_.readBlock(slice_, along_rows, line, index, size), 0,
                                           source_.sharedAmax(slice_, format_, axis_, line, index));
  QStringList lines{(along_rows ? QString("row %1, block %2") : QString("column %1, block %2")).arg(line).arg(index),
                    QString("largest value %1").arg(formatValue(block.amax))};
  if (source_.grouped()) lines.prepend(QString("expert %1").arg(source_.groupOf(first)));
  if (block.is_nan()) return lines << QString("NaN block");
  const QString value = formatValue(block.scale.value);
  if (format_.scheme == QuantScheme::fp8)
    lines << QString("scale %1").arg(value);
  else if (format_.scheme == QuantScheme::nvfp4)
    lines << QString("scale %1 = tensor %2 × E4M3 %3")
                 .arg(value, formatValue(block.scale.tensor), exactText(decode(ElementFormat::e4m3, block.scale.code)));
  else
    lines << QString("scale %1, byte %2").arg(formatPowerOfTwo(block.scale.code - 127)).arg(block.scale.code);
  return lines << QString("SQNR %1 dB").arg(formatValue(block.sums.sqnr_db(), 3))
               << QString("flushed to zero %1").arg(formatPercent(block.sums.underflow_share()))
               << QString("clipped %1").arg(formatPercent(block.sums.clipped_share()));
}

void BlockScaleMapPanel::choose(int row, int column) {
  const auto [line, block] = blockAt(row, column);
  setCurrent(line, block);
  emit blockChosen(line, block);
}

// Returns the block's row (or column) and its number along it.
std::pair<std::size_t, std::size_t> BlockScaleMapPanel::blockAt(int row, int column) const {
  const std::size_t r = rows_.at(row), c = columns_.at(column);
  return axis_ == BlockAxis::row ? std::pair(r, c) : std::pair(c, r);
}

void BlockScaleMapPanel::setCurrent(std::size_t line, std::size_t block) {
  has_current_ = true;
  current_row_ = axis_ == BlockAxis::row ? line : block;
  current_column_ = axis_ == BlockAxis::row ? block : line;
  cells_->setCurrent(shownAt(rows_, current_row_), shownAt(columns_, current_column_));
  cells_->update();
}

ValueTable BlockScaleMapPanel::table() const {
  const bool along_rows = axis_ == BlockAxis::row;
  ValueTable table(
      {{along_rows ? "row" : "block"}, {along_rows ? "block" : "column"}, {"scale byte"}, {"scale", "2^k"}});
  if (!source_.valid()) return table;
  const std::vector<std::uint8_t> codes = scales();
  for (std::size_t i = 0; i < codes.size(); ++i)
    table.add(rows_.at(i / columns_.shown()), columns_.at(i % columns_.shown()),
              format_.scheme == QuantScheme::mx ? table_value(codes[i]) : TableValue(),
              codes[i] == 255 ? table_value(std::string("NaN")) : table_value(codes[i] - 127));
  return table;
}

}  // namespace moescope
