#include "widgets/microscaling/number_formats_panel.h"

#include <QHeaderView>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QStyle>
#include <algorithm>
#include <cmath>

#include "widgets/look/layouts.h"
#include "widgets/look/row_delegate.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"
#include "widgets/microscaling/block/block_table.h"
#include "widgets/microscaling/block/number_line.h"
#include "widgets/microscaling/tables.h"
#include "widgets/panel/csv.h"
#include "widgets/plots/axis.h"

namespace moescope {
namespace {

constexpr int kBlockScaleColumn = 2;

double binades(double largest, double least) {
  return std::log2(largest / least);
}

QString span(double binades) {
  return QString("%1 binades").arg(binades, 0, 'f', 1);
}

QStringList mxRow(const OperandFormat& format) {
  const FormatTraits& f = traits(format.element);
  const double least = f.min_subnormal;
  return {operandFormatLabel(format).section(QLatin1Char(','), 0, 0),
          "32 along a row or column",
          QStringLiteral("E8M0"),
          "none",
          QString::number(bits_per_value(format)),
          span(binades(f.max, least)),
          span(binades(f.max * 0x1p127, least * 0x1p-127)),
          "NaN or infinity: its block becomes NaN"};
}

// The block scales are between 2^-6, torchao's smallest, and 448 (quantize.h).
QStringList nvfp4Row() {
  const FormatTraits& f = traits(kNvfp4Format.element);
  return {QStringLiteral("NVFP4 E2M1"),
          "16 along a row or column",
          "E4M3, 2⁻⁶ to 448",
          QStringLiteral("FP32"),
          QString::number(bits_per_value(kNvfp4Format)),
          span(binades(f.max, f.min_subnormal)),
          span(binades(f.max * 448.0, f.min_subnormal * 0x1p-6)),
          "NaN or infinity: the whole tensor becomes NaN"};
}

QStringList fp8Row(const QString& name, const QString& shared) {
  const FormatTraits& f = traits(ElementFormat::e4m3);
  return {name,
          shared,
          "FP32",
          "none",
          QStringLiteral("8 + 32 / n"),
          span(binades(f.max, f.min_subnormal)),
          "as FP32",
          "NaN or infinity: all that shares the scale becomes NaN"};
}

QTableWidget* makeFormatTable(const QString& name, const QStringList& headers, const std::vector<QStringList>& rows,
                              QWidget* parent) {
  auto* table = new QTableWidget(static_cast<int>(rows.size()), static_cast<int>(headers.size()), parent);
  table->setHorizontalHeaderLabels(headers);
  for (int row = 0; row < table->rowCount(); ++row)
    for (int column = 0; column < table->columnCount(); ++column) {
      auto* item = new QTableWidgetItem(rows[row][column]);
      item->setFlags(Qt::ItemIsEnabled | Qt::ItemIsSelectable);
      table->setItem(row, column, item);
    }
  makePlain(table, name);
  table->setItemDelegate(new RowDelegate(table));
  table->horizontalHeader()->setDefaultAlignment(Qt::AlignLeft | Qt::AlignVCenter);
  table->horizontalHeader()->setStretchLastSection(true);
  return table;
}

// The formats used in training: element format, values that share a scale, scales, bits per value, range.
QTableWidget* makeBlockFormats(QWidget* parent) {
  std::vector<QStringList> rows;
  for (const NamedFormat& named : named_formats())
    if (named.format.scheme == QuantScheme::mx) rows.push_back(mxRow(named.format));
  const int nvfp4_row = static_cast<int>(rows.size());
  rows.push_back(nvfp4Row());
  rows.push_back(fp8Row(QStringLiteral("FP8 E4M3"), "128, 128 x 128, row or tensor"));
  auto* table = makeFormatTable("Formats with scales",
                                {"with scales", "values that share one", "block scale", "tensor scale", "bits/value",
                                 "range in a block", "range in a tensor", "special values"},
                                rows, parent);
  table->item(nvfp4_row, kBlockScaleColumn)
      ->setToolTip(
          "2⁻⁶ is the smallest block scale of torchao's inference code, and here. NVIDIA's TransformerEngine has no "
          "such floor: scales go down to E4M3's smallest number, 2⁻⁹, and a block too small for that becomes zeros");
  table->setSelectionMode(QAbstractItemView::ExtendedSelection);
  table->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  followFont(table, [table] {
    const int row = table->fontMetrics().height() + 6;
    table->verticalHeader()->setDefaultSectionSize(row);
    table->resizeColumnsToContents();
    table->setFixedHeight(table->horizontalHeader()->sizeHint().height() + table->rowCount() * row + 4);
  });
  return table;
}

constexpr int kNumberRows = kNumElementFormats + 1;
enum NumberColumn {
  kNameColumn,
  kBitsColumn,
  kMaxColumn,
  kLeastNormal,
  kLeastSubnormal,
  kSpacing,
  kCodeCount,
  kSpecial,
  kNumberColumns
};

QString formatName(int format) {
  return format == NumberFormatsPanel::kE8m0 ? QStringLiteral("E8M0")
                                             : elementFormatLabel(static_cast<ElementFormat>(format));
}

BitLayout layoutOf(int format) {
  return format == NumberFormatsPanel::kE8m0 ? e8m0Layout() : bitLayout(static_cast<ElementFormat>(format));
}

std::vector<float> valuesOf(int format) {
  if (format != NumberFormatsPanel::kE8m0) return representable_values(static_cast<ElementFormat>(format));
  std::vector<float> values;
  for (int code = 0; code < 255; ++code) values.push_back(decode_e8m0(static_cast<std::uint8_t>(code)));
  return values;
}

CodeFields fieldsOf(int format, std::uint8_t code) {
  return format == NumberFormatsPanel::kE8m0 ? e8m0_fields(code)
                                             : code_fields(static_cast<ElementFormat>(format), code);
}

QString specialValues(int format) {
  if (format == NumberFormatsPanel::kE8m0) return QString("NaN FF; no zero, no sign, no infinity");
  if (static_cast<ElementFormat>(format) == ElementFormat::int8) return QString("80 = -2 is never produced; one zero");
  const FormatTraits& f = traits(static_cast<ElementFormat>(format));
  const auto hex = [](int code) { return QString::number(code, 16).toUpper(); };
  const int sign = 1 << (f.bits - 1), largest = sign - 1, infinity = largest >> f.mantissa_bits << f.mantissa_bits;
  switch (f.special) {
    case SpecialCodes::none:
      return QString("none: every code is a number");
    case SpecialCodes::nan:
      return QString("NaN %1 %2; no infinity").arg(hex(largest), hex(sign + largest));
    case SpecialCodes::ieee:
      return QString("infinity %1 %2; NaN %3-%4 %5-%6")
          .arg(hex(infinity), hex(sign + infinity), hex(infinity + 1), hex(largest), hex(sign + infinity + 1),
               hex(sign + largest));
  }
  return {};
}

QString spacing(int format) {
  if (format == NumberFormatsPanel::kE8m0) return QString("factor 2");
  const FormatTraits& f = traits(static_cast<ElementFormat>(format));
  if (static_cast<ElementFormat>(format) == ElementFormat::int8) return QString("1/64 everywhere");
  return QString("binade / %1").arg(1 << f.mantissa_bits);
}

QString cellText(int format, int column) {
  if (column == kNameColumn) return formatName(format);
  if (column == kSpacing) return spacing(format);
  if (column == kSpecial) return specialValues(format);
  if (column == kCodeCount) return QString::number(valuesOf(format).size());
  if (format == NumberFormatsPanel::kE8m0)
    return column == kMaxColumn ? formatPowerOfTwo(127) : column == kLeastNormal ? formatPowerOfTwo(-127) : QString();
  const FormatTraits& f = traits(static_cast<ElementFormat>(format));
  const bool int8 = static_cast<ElementFormat>(format) == ElementFormat::int8;
  const auto power = [](float v) { return formatPowerOfTwo(static_cast<int>(std::lround(std::log2(v)))); };
  switch (column) {
    case kMaxColumn:
      return exactText(f.max);
    case kLeastNormal:
      return int8 ? QString() : power(f.min_normal);
    case kLeastSubnormal:
      return int8 ? formatPowerOfTwo(-6) : power(f.min_subnormal);
  }
  return {};
}

class LayoutDelegate : public RowDelegate {
 public:
  using RowDelegate::RowDelegate;
  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    RowDelegate::paint(painter, option, index);
    painter->save();
    painter->setFont(option.font);
    paintLayout(*painter, option.rect.adjusted(kSpace4, 3, -2, -4), layoutOf(index.row()), option.palette);
    painter->restore();
  }
};

}  // namespace

BitEditor::BitEditor(QWidget* parent) : QWidget(parent) {
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName("Bits of the code");
  setToolTip("Click a bit to flip it; or arrow keys and Space");
}

void BitEditor::setCode(const BitLayout& layout, int code) {
  layout_ = layout;
  code_ = code;
  bit_ = std::min(bit_, layout.bits() - 1);
  setAccessibleDescription(QString::number(code, 2).rightJustified(layout.bits(), QLatin1Char('0')));
  updateGeometry();
  update();
}

QSize BitEditor::sizeHint() const {
  const int height = fontMetrics().height() + 14;
  return {bitsWidth(layout_.bits() ? layout_ : BitLayout{1, 5, 2}, height - 6) + 8, height};
}

void BitEditor::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  paintBits(painter, area(), layout_, code_, palette());
  if (!hasFocus()) return;
  painter.setPen(QColor(colors(palette()).accent));
  painter.drawRect(rect().adjusted(0, 0, -1, -1));
  const int width = std::max(1, (this->width() - 8) / std::max(1, layout_.bits()));
  painter.drawLine(4 + bit_ * width, height() - 2, 4 + (bit_ + 1) * width - 3, height() - 2);
}

void BitEditor::flip(int bit) {
  if (bit < 0) return;
  bit_ = bit;
  emit codeEdited(code_ ^ 1 << (layout_.bits() - 1 - bit));
}

void BitEditor::mousePressEvent(QMouseEvent* event) {
  flip(bitAt(area(), layout_, event->pos()));
}

void BitEditor::keyPressEvent(QKeyEvent* event) {
  const int set = code_ >> (layout_.bits() - 1 - bit_) & 1;
  switch (event->key()) {
    case Qt::Key_Left:
      bit_ = std::max(0, bit_ - 1);
      return update();
    case Qt::Key_Right:
      bit_ = std::min(layout_.bits() - 1, bit_ + 1);
      return update();
    case Qt::Key_Space:
      return flip(bit_);
    case Qt::Key_0:
    case Qt::Key_1:
      if (set != event->key() - Qt::Key_0) flip(bit_);
      return;
    default:
      return QWidget::keyPressEvent(event);
  }
}

NumberFormatsPanel::NumberFormatsPanel(Selection* selection, QWidget* parent)
    : Panel(selection, "Number formats", Provenance::published, parent) {
  makeTable();
  line_ = new NumberLine(this);
  line_->setAccessibleName("Representable values");
  line_->setMinimumHeight(90);
  addBody(table_, 0);
  addBody(makeBlockFormats(this), 0);
  addBody(makeCodeRow(), 0);
  addBody(line_);
  setFormat(0);
  keepState(
      "format", [this] { return format_; },
      [this](const QVariant& state) { setFormat(std::clamp(state.toInt(), 0, kNumberRows - 1)); });
  keepState(
      "compared", [this] { return compared_; },
      [this](const QVariant& state) { setCompared(std::clamp(state.toInt(), -1, kNumberRows - 1)); });
  keepState("log", log_);
}

void NumberFormatsPanel::makeTable() {
  std::vector<QStringList> rows(kNumberRows);
  for (int row = 0; row < kNumberRows; ++row)
    for (int column = 0; column < kNumberColumns; ++column) rows[row] << cellText(row, column);
  table_ = makeFormatTable(
      "Formats", {"format", "bits", "max", "min normal", "min subnormal", "spacing", "values", "special codes"}, rows,
      this);
  table_->setItemDelegateForColumn(kBitsColumn, new LayoutDelegate(table_));
  followFont(table_, [this] {
    const int line = table_->fontMetrics().height();
    table_->verticalHeader()->setDefaultSectionSize(line + 6);
    table_->resizeColumnsToContents();
    table_->setColumnWidth(kBitsColumn, bitsWidth({1, 5, 2}, line + 2) + 14);
    table_->setFixedHeight(table_->horizontalHeader()->sizeHint().height() + kNumberRows * (line + 6) +
                           style()->pixelMetric(QStyle::PM_ScrollBarExtent) + 4);
  });
  connect(table_, &QTableWidget::currentCellChanged, this, [this](int row) {
    if (row >= 0 && row != format_) setFormat(row);
  });
}

QWidget* NumberFormatsPanel::makeCodeRow() {
  auto* row = new QWidget(this);
  auto* column = plainColumn(row, 2);
  auto* first = new QHBoxLayout;
  bits_ = new BitEditor(row);
  hex_ = new QLineEdit(row);
  followFont(hex_,
             [this] { hex_->setMaximumWidth(hex_->fontMetrics().horizontalAdvance(QStringLiteral("0xFF")) + 24); });
  hex_->setAccessibleName("Code, hexadecimal");
  hex_->setToolTip(hex_->accessibleName());
  value_ = new QLineEdit(row);
  followFont(value_, [this] { value_->setMaximumWidth(withType(150, value_->fontMetrics())); });
  value_->setAccessibleName("Value to encode");
  value_->setToolTip("A value: it is rounded to the nearest code of the format");
  reading_ = new QLabel(row);
  reading_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  reading_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  compare_ = new QComboBox(row);
  compare_->addItem("compare");
  for (int i = 0; i < kNumberRows; ++i) compare_->addItem(QString("with %1").arg(formatName(i)));
  compare_->setAccessibleName("Second format on the number line");
  log_ = new QCheckBox("log", row);
  log_->setToolTip("Number line logarithmic on both sides of zero");
  for (QWidget* widget :
       std::initializer_list<QWidget*>{new QLabel("code", row), hex_, bits_, new QLabel("value", row), value_})
    first->addWidget(widget);
  first->addWidget(reading_, 1);
  first->addWidget(compare_);
  first->addWidget(log_);
  column->addLayout(first);
  rounding_ = new QLabel(row);
  rounding_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  column->addWidget(rounding_);

  connect(bits_, &BitEditor::codeEdited, this, &NumberFormatsPanel::setCode);
  connect(hex_, &QLineEdit::editingFinished, this, [this] {
    bool good = false;
    const int code = hex_->text().toInt(&good, 16);
    if (good && code >= 0 && code < 1 << layoutOf(format_).bits())
      setCode(code);
    else
      refresh();
  });
  connect(value_, &QLineEdit::returnPressed, this, [this] { setValue(value_->text()); });
  connect(compare_, &QComboBox::activated, this, [this](int i) { setCompared(i - 1); });
  connect(log_, &QCheckBox::toggled, this, [this](bool log) { line_->setLog(log); });
  return row;
}

void NumberFormatsPanel::setFormat(int format) {
  const float value = fieldsOf(format_, code_).value;
  format_ = format;
  // Keeps the value, so that the user can compare formats by moving down the table.
  code_ =
      format_ == kE8m0 ? encode_e8m0_up(std::fabs(value), true) : encode(static_cast<ElementFormat>(format_), value);
  rounding_->clear();
  table_->selectRow(format);
  if (format_ == kE8m0) log_->setChecked(true);
  refresh();
}

void NumberFormatsPanel::setCompared(int format) {
  compared_ = format;
  compare_->setCurrentIndex(format + 1);
  refresh();
}

void NumberFormatsPanel::setCode(int code) {
  code_ = code;
  rounding_->clear();
  refresh();
}

void NumberFormatsPanel::setValue(const QString& text) {
  const std::optional<float> value = parseFloat(text);
  if (!value)
    return rounding_->setText(QString("'%1' is not a number; allowed: 0.5, 1e-3, 0x1p-7, nan, inf").arg(text));
  if (format_ == kE8m0) {
    code_ = encode_e8m0_up(std::fabs(*value), true);
    refresh();
    return rounding_->setText(QString("%1 rounds up to the next power of two").arg(exactText(*value)));
  }
  const auto format = static_cast<ElementFormat>(format_);
  code_ = encode(format, *value);
  refresh();
  const Neighbours near = neighbours(format, *value);
  const float max = traits(format).max;
  rounding_->setText(
      std::isnan(*value)        ? QString("NaN")
      : std::fabs(*value) > max ? QString("%1 is beyond %2 and saturates").arg(exactText(*value)).arg(max)
      : near.below == near.above
          ? QString("%1 is represented exactly").arg(exactText(*value))
          : QString("%1 lies between %2 and %3; nearest, ties to even: %4, error %5")
                .arg(exactText(*value), exactText(near.below), exactText(near.above), exactText(decode(format, code_)),
                     formatValue(double{fieldsOf(format_, code_).value} - *value)));
}

void NumberFormatsPanel::refresh() {
  const CodeFields f = fieldsOf(format_, code_);
  bits_->setCode(layoutOf(format_), code_);
  hex_->setText(QStringLiteral("%1").arg(code_, 2, 16, QLatin1Char('0')).toUpper());
  value_->setText(exactText(f.value));
  reading_->setText(QStringLiteral("%1: %2").arg(QString::fromLatin1(code_kind_name(f.kind)),
                                                 inPrint(QString::fromStdString(f.formula))));
  std::vector<NumberLine::Points> rows{{formatName(format_), valuesOf(format_)}};
  if (compared_ >= 0) rows.push_back({formatName(compared_), valuesOf(compared_)});
  line_->setPoints(std::move(rows));
  line_->setCaption("Representable values; circle: the code above");
  std::vector<NumberLine::Mark> marks;
  if (std::isfinite(f.value)) marks.push_back({f.value, f.value, QString("code %1").arg(hex_->text()), false});
  line_->setMarks(std::move(marks));
  line_->setCurrentMark(std::isfinite(f.value) ? 0 : -1);
}

QString NumberFormatsPanel::csv() const {
  QString text = QStringLiteral("format,code,sign,exponent,mantissa,kind,value\n");
  for (int code = 0; code < 1 << layoutOf(format_).bits(); ++code) {
    const CodeFields f = fieldsOf(format_, code);
    text += csvRow(formatName(format_), code, f.sign, f.exponent, f.mantissa,
                   QString::fromLatin1(code_kind_name(f.kind)), exactText(f.value));
  }
  return text;
}

}  // namespace moescope
