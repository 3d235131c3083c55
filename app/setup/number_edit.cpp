#include "app/setup/number_edit.h"

#include <QKeyEvent>
#include <QLabel>
#include <QLocale>
#include <QTimer>
#include <QWheelEvent>
#include <algorithm>
#include <bit>
#include <cmath>

#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {

namespace {

constexpr int kRestMs = 400;  // milliseconds from the last step of the arrows until the value is committed

// Returns 1, 2 or 5 times a power of ten, counted by `rank`. Goes through text, so that 5e-6 equals the typed 5e-6.
double oneTwoFive(int rank) {
  static constexpr int kLead[] = {1, 2, 5};
  const int decade = (rank >= 0 ? rank : rank - 2) / 3;
  return QString("%1e%2").arg(kLead[rank - 3 * decade]).arg(decade).toDouble();
}

double nextOneTwoFive(double value, int direction) {
  int rank = 3 * static_cast<int>(std::floor(std::log10(value)));
  while (oneTwoFive(rank) <= value * (1 + 1e-9)) ++rank;  // the first rank above the value
  if (direction > 0) return oneTwoFive(rank);
  while (oneTwoFive(rank) >= value * (1 - 1e-9)) --rank;
  return oneTwoFive(rank);
}

}  // namespace

double nextReal(double value, int direction, double max, double tiny) {
  if (value < 0) return -nextReal(-value, -direction, max, tiny);
  if (value == 0) return direction > 0 ? tiny : 0;
  if (max <= 1 && (value > 0.1 || (value == 0.1 && direction > 0)))
    return std::round((value + 0.05 * direction) * 1e6) / 1e6;
  if (direction < 0 && value <= tiny * (1 + 1e-9)) return 0;
  return nextOneTwoFive(value, direction);
}

std::int64_t nextWhole(std::int64_t value, int direction) {
  const std::int64_t size = std::abs(value);
  std::int64_t step = 1;
  if (size >= 16) {
    step = std::bit_floor(static_cast<std::uint64_t>(size / 8));
    if (size % step != 0) step = std::llround(std::pow(10, std::floor(std::log10(size)) - 1));
  }
  return value + direction * step;
}

NumberEdit::NumberEdit(bool whole, double min, double max, QWidget* parent)
    : QAbstractSpinBox(parent),
      unit_(new QLabel(this)),
      whole_(whole),
      min_(min),
      max_(max),
      commit_timer_(new QTimer(this)) {
  setFocusPolicy(Qt::StrongFocus);
  lineEdit()->setTextMargins(kSpace4, 0, 0, 0);  // same margin as in lists
  unit_->setAttribute(Qt::WA_TransparentForMouseEvents);
  unit_->setForegroundRole(QPalette::PlaceholderText);
  commit_timer_->setSingleShot(true);
  commit_timer_->setInterval(kRestMs);
  connect(commit_timer_, &QTimer::timeout, this, &NumberEdit::commit);
  connect(this, &QAbstractSpinBox::editingFinished, this, &NumberEdit::commit);
  connect(lineEdit(), &QLineEdit::textEdited, this, [this] {
    dirty_ = true;
    emit edited();
  });
  connect(lineEdit(), &QLineEdit::textChanged, this, &NumberEdit::placeUnit);
}

void NumberEdit::setUnit(const QString& unit) {
  unit_->setText(unit);
  placeUnit();
}

// Shows the unit at the right, where the arrows appear while the pointer is over the field.
void NumberEdit::placeUnit() {
  const QFont small = typeFont(Type::secondary);
  if (unit_->font() != small) unit_->setFont(small);
  unit_->resize(unit_->sizeHint());
  unit_->move(width() - kSpace8 - unit_->width(), (height() - unit_->height()) / 2);
  const int needed = 2 * kSpace8 + fontMetrics().horizontalAdvance(text()) + kSpace8 + unit_->width();
  unit_->setVisible(!unit_->text().isEmpty() && !underMouse() && needed <= width());
}

void NumberEdit::setNumber(double value) {
  show(QString::number(value, 'g', QLocale::FloatingPointShortest));
}
void NumberEdit::setWhole(std::int64_t value) {
  show(QString::number(value));
}

std::optional<double> NumberEdit::number() const {
  bool ok = false;
  const double value = text().trimmed().toDouble(&ok);
  return ok && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<std::int64_t> NumberEdit::whole() const {
  bool ok = false;
  const std::int64_t value = text().trimmed().toLongLong(&ok);
  return ok ? std::optional(value) : std::nullopt;
}

void NumberEdit::commit() {
  commit_timer_->stop();
  if (!dirty_) return;
  dirty_ = false;
  emit committed();
}

void NumberEdit::stepBy(int steps) {
  const int direction = steps > 0 ? 1 : -1;
  for (int i = 0; i < std::abs(steps); ++i) {
    if (whole_) {
      if (auto value = whole()) setWhole(std::llround(std::clamp<double>(nextWhole(*value, direction), min_, max_)));
    } else if (auto value = number()) {
      setNumber(std::clamp(nextReal(*value, direction, max_), min_, max_));
    }
  }
  dirty_ = true;
  commit_timer_->start();
  emit edited();
}

QAbstractSpinBox::StepEnabled NumberEdit::stepEnabled() const {
  const auto value = number();
  if (!value) return StepNone;
  StepEnabled enabled = StepNone;
  if (*value < max_) enabled |= StepUpEnabled;
  if (*value > min_) enabled |= StepDownEnabled;
  return enabled;
}

QValidator::State NumberEdit::validate(QString& input, int&) const {
  const auto allowed = [this](QChar c) { return c.isDigit() || QString(whole_ ? "+-" : "+-.eE").contains(c); };
  return std::all_of(input.cbegin(), input.cend(), allowed) ? QValidator::Acceptable : QValidator::Invalid;
}

// Ignores the wheel unless the field has the focus: scrolling the form must not change numbers.
void NumberEdit::wheelEvent(QWheelEvent* event) {
  if (hasFocus())
    QAbstractSpinBox::wheelEvent(event);
  else
    event->ignore();
}

// True if the window handles a key: Space, letters that no number has, and undo once the value was committed.
bool NumberEdit::isForTheWindow(const QKeyEvent& key) const {
  if (key.matches(QKeySequence::Undo) || key.matches(QKeySequence::Redo)) return !dirty_;
  if (key.modifiers() != Qt::NoModifier || key.text().isEmpty() || !key.text()[0].isPrint()) return false;
  QString text = key.text();
  int at = 0;
  return validate(text, at) == QValidator::Invalid;
}

bool NumberEdit::event(QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride && isForTheWindow(*static_cast<QKeyEvent*>(event))) {
    event->ignore();
    return false;
  }
  const bool done = QAbstractSpinBox::event(event);
  const QEvent::Type type = event->type();
  if (type == QEvent::Resize || type == QEvent::Enter || type == QEvent::Leave) placeUnit();
  return done;
}

QSize NumberEdit::sizeHint() const {
  const int digits = fontMetrics().horizontalAdvance("0.00000000");
  return {digits + 26, withType(kFieldHeight, fontMetrics())};
}

}  // namespace moescope
