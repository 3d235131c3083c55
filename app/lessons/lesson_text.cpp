#include "app/lessons/lesson_text.h"

#include <QApplication>
#include <QClipboard>
#include <QPainter>
#include <QRegularExpression>
#include <QToolButton>

#include "widgets/look/counted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/sign.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"

namespace moescope {
namespace {

constexpr double kMarkLine = 2;

void paintTick(QPainter& painter, const QRectF& place, const QColor& color) {
  painter.setPen(QPen(color, kMarkLine, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
  painter.drawPolyline(QPolygonF({{place.left() + place.width() * 0.2, place.top() + place.height() * 0.55},
                                  {place.left() + place.width() * 0.42, place.top() + place.height() * 0.75},
                                  {place.left() + place.width() * 0.82, place.top() + place.height() * 0.3}}));
}

QRectF diskIn(const QRectF& place) {
  const double inset = place.width() * 0.14;
  return place.adjusted(inset, inset, -inset, -inset);
}

// Adds lines of code, which do not wrap.
void addCode(QBoxLayout* column, const QString& code) {
  auto* card = new CardFrame;
  auto* inside = plainColumn(card);
  inside->setContentsMargins(kSpace8, kSpace4, kSpace4, kSpace8);
  QToolButton* copy = flatButton("Copy", "Copies these lines");
  QObject::connect(copy, &QToolButton::clicked, copy, [copy, code] {
    QApplication::clipboard()->setText(code + '\n');
    copy->setText("Copied");
  });
  inside->addWidget(copy, 0, Qt::AlignRight);
  auto* lines = new QLabel(code);
  lines->setObjectName("lesson_code");
  lines->setTextFormat(Qt::PlainText);
  lines->setWordWrap(true);  // only in a page narrower than that at 1280 x 800
  lines->setTextInteractionFlags(Qt::TextSelectableByMouse);
  followFont(card, [card, lines] { lines->setFont(formulaFont(card->font())); });
  inside->addWidget(lines);
  column->addWidget(card);
}

}  // namespace

void paintLessonMark(QPainter& painter, const QRectF& place, LessonMark mark, const QPalette& palette) {
  const Colors& c = colors(palette);
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setBrush(Qt::NoBrush);
  switch (mark) {
    case LessonMark::waiting:
    case LessonMark::running:
      painter.setPen(QPen(QColor(mark == LessonMark::running ? c.accent : c.axis), kMarkLine));
      painter.drawEllipse(diskIn(place));
      if (mark == LessonMark::waiting) break;
      painter.setBrush(QColor(c.accent));
      painter.drawPie(diskIn(place), 90 * 16, 180 * 16);  // in sixteenths of a degree
      break;
    case LessonMark::done:
      paintTick(painter, place, QColor(c.good));
      break;
    case LessonMark::fault:
      paintSign(painter, diskIn(place), Sign::bad, isDark(palette));
      break;
  }
  painter.restore();
}

LessonSegments::LessonSegments(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void LessonSegments::show(int step, int steps) {
  step_ = step;
  steps_ = std::max(1, steps);
  setAccessibleName(QString("Step %1 of %2").arg(step + 1).arg(steps));
  update();
}

void LessonSegments::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Colors& c = colors(palette());
  const double segment_width = (width() - kSpace4 * (steps_ - 1.0)) / steps_;
  for (int i = 0; i < steps_; ++i) {
    const QRectF segment(i * (segment_width + kSpace4), 0, segment_width, height());
    drawRounded(painter, segment.toRect(), height() / 2, QColor(i <= step_ ? c.accent : c.hairline), Qt::transparent);
  }
}

QToolButton* flatButton(const QString& text, const QString& tip, const QString& name) {
  auto* button = new QToolButton;
  button->setObjectName(name);
  button->setText(text);
  button->setToolTip(tip);
  button->setFocusPolicy(Qt::StrongFocus);
  keepKeys(button);
  return button;
}

QString spacedText(const QString& markdown) {
  static const QRegularExpression item("^- ", QRegularExpression::MultilineOption);
  return withUnbrokenUnits(markdown)
      .trimmed()
      .replace("\n\n", QStringLiteral("\n\n\u00a0\n\n"))
      .replace(item, QStringLiteral("\n\u2022\u2002"));  // a list of QLabel has no space between bullet and text
}

void showTextAndCode(QBoxLayout* column, const QString& markdown) {
  clearLayout(column);
  const QStringList parts = markdown.split("```");
  for (qsizetype i = 0; i < parts.size(); ++i) {
    if (i % 2 == 1)
      addCode(column, parts[i].section('\n', 1).trimmed());
    else if (const QString text = spacedText(parts[i]); !text.isEmpty())
      addLessonText(column)->setText(text);
  }
}

QLabel* addLessonText(QBoxLayout* column) {
  auto* label = new QLabel;
  label->setWordWrap(true);
  label->setTextFormat(Qt::MarkdownText);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  column->addWidget(label);
  return label;
}

LessonCard::LessonCard(const QString& heading, QBoxLayout* column)
    : heading_(new QLabel(heading)), inside_(new QVBoxLayout(this)) {
  setObjectName("lesson_card");
  setAccessibleName(heading);
  inside_->setContentsMargins(kSpace12, kSpace8, kSpace12, kSpace12);
  inside_->setSpacing(kSpace8);
  setType(heading_, Type::body, true);
  inside_->addWidget(heading_);
  column->addWidget(this);
}

void LessonCard::setActive(bool active) {
  setAccented(active);
  heading_->setForegroundRole(active ? QPalette::Link : QPalette::WindowText);
}

}  // namespace moescope
