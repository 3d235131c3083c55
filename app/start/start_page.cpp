#include "app/start/start_page.h"

#include <QComboBox>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QPainter>
#include <QPushButton>
#include <QToolButton>
#include <QWidget>
#include <array>
#include <cmath>
#include <cstdint>

#include "app/look/card_frame.h"
#include "app/look/icons.h"
#include "app/look/keep_keys.h"
#include "app/look/theme.h"
#include "core/config/config_toml.h"
#include "core/lessons/lesson.h"
#include "widgets/look/fitted_text.h"
#include "widgets/look/layouts.h"
#include "widgets/look/style.h"
#include "widgets/look/tokens.h"
#include "widgets/look/type_scale.h"

namespace moescope {
namespace {

// Small example figures for the five questions of the Overview, drawn from invented values.

constexpr int kExampleWidth = 120, kExampleHeight = 76;
constexpr int kExampleExperts = 10, kExampleSteps = 44, kExampleRanks = 8;

// Returns a pseudorandom number in [0, 1), the same in every run of the program.
double invented(int a, int b) {
  auto bits = static_cast<std::uint32_t>(a) * 2654435761U ^ static_cast<std::uint32_t>(b) * 40503U;
  bits ^= bits >> 13;
  bits *= 1274126177U;
  return static_cast<double>(bits >> 8 & 0xFFFF) / 0xFFFF;
}

// Returns the color at `share` of a color map, interpolated.
QColor shade(const std::array<QRgb, 7>& map, double share) {
  const double at = std::clamp(share, 0.0, 1.0) * 6;
  const auto below = static_cast<std::size_t>(std::min(at, 5.0));
  const double part = at - below;
  const QColor a(map[below]), b(map[below + 1]);
  const auto mix = [part](int from, int to) { return static_cast<int>(from + part * (to - from)); };
  return {mix(a.red(), b.red()), mix(a.green(), b.green()), mix(a.blue(), b.blue())};
}

void paintCurve(QPainter& painter, const QRectF& room, const QColor& color, double (*height)(double)) {
  constexpr int kPoints = 80;
  QPolygonF curve;
  for (int i = 0; i < kPoints; ++i) {
    const double x = i / (kPoints - 1.0);
    curve << QPointF(room.left() + x * room.width(), room.bottom() - height(x) * room.height());
  }
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(color, kCurveWidth));
  painter.drawPolyline(curve);
}

double overloadExample(double x) {
  const double rise = std::exp(-std::pow((x - 0.09) / 0.055, 2));
  return 0.08 + 0.9 * rise + 0.02 * std::sin(60 * x);
}

double lossExample(double x) {
  return 0.1 + 0.88 * std::exp(-5 * x) + 0.012 * std::sin(47 * x);
}

void paintVerdict(QPainter& painter, const QRect& room, const QPalette& palette) {
  const Colors& c = colors(palette);
  const QFontMetrics metrics = painter.fontMetrics();
  const int mark = withType(kMarkSize, metrics);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(Qt::NoPen);
  painter.setBrush(QColor(c.good));
  const QRectF disk(room.left() + 1, room.top(), mark, mark);
  painter.drawEllipse(disk);
  painter.setPen(QPen(QColor(c.surface), 2, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
  painter.drawPolyline(QPolygonF({{disk.left() + mark * 0.28, disk.top() + mark * 0.53},
                                  {disk.left() + mark * 0.44, disk.top() + mark * 0.68},
                                  {disk.left() + mark * 0.73, disk.top() + mark * 0.36}}));
  painter.setFont(semibold(painter.font()));
  painter.setPen(QColor(c.good));
  painter.drawText(QRect(room.left() + mark + kSpace8, room.top(), room.width(), mark), Qt::AlignVCenter, "Healthy");
  const QRectF plot = QRectF(room).adjusted(0, mark + kSpace4, 0, -kSpace4);
  painter.setPen(QPen(QColor(c.axis), 1, Qt::DashLine));
  painter.drawLine(QPointF(plot.left(), plot.bottom()), QPointF(plot.right(), plot.bottom()));
  paintCurve(painter, plot, QColor(c.series[0]), overloadExample);
}

void paintLoss(QPainter& painter, const QRect& room, const QPalette& palette) {
  const Colors& c = colors(palette);
  painter.setPen(QColor(c.grid));
  for (int line = 0; line <= 3; ++line) {
    const int y = room.top() + line * (room.height() - 1) / 3;
    painter.drawLine(room.left(), y, room.right(), y);
  }
  paintCurve(painter, QRectF(room), QColor(c.series[0]), lossExample);
}

void paintLoad(QPainter& painter, const QRect& room, const QPalette& palette) {
  const Colors& c = colors(palette);
  for (int expert = 0; expert < kExampleExperts; ++expert)
    for (int step = 0; step < kExampleSteps; ++step) {
      const double early = std::exp(-std::pow((step - 8.0) / 7, 2));
      const double kept_bias = expert == 5 ? -0.45 : expert == 9 ? 0.45 : 0;
      const double lean = (invented(expert, 7) - 0.5) * 1.2 * early + kept_bias * std::exp(-step / 40.0);
      const double share = 0.5 + lean + 0.3 * (invented(expert, step) - 0.5);
      const int left_x = room.left() + room.width() * step / kExampleSteps;
      const int right = room.left() + room.width() * (step + 1) / kExampleSteps;
      const int top = room.top() + room.height() * expert / kExampleExperts;
      const int bottom = room.top() + room.height() * (expert + 1) / kExampleExperts;
      painter.fillRect(left_x, top, right - left_x, bottom - top, shade(c.load, share));
    }
}

// Paints a matrix of `rows` x `columns` cells with gaps of one pixel.
void paintCells(QPainter& painter, const QRect& room, int rows, int columns, const Colors& c,
                double (*share)(int, int)) {
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column) {
      const int left_x = room.left() + room.width() * column / columns;
      const int right = room.left() + room.width() * (column + 1) / columns;
      const int top = room.top() + room.height() * row / rows, bottom = room.top() + room.height() * (row + 1) / rows;
      const QColor cell = row == column && rows == columns ? QColor(c.hairline) : shade(c.matrix, share(row, column));
      painter.fillRect(left_x, top, right - left_x - 1, bottom - top - 1, cell);
    }
}

void paintAllToAll(QPainter& painter, const QRect& room, const QPalette& palette) {
  const Colors& c = colors(palette);
  const int side = std::min(room.height(), room.width() * 45 / 100);
  paintCells(painter, {room.left(), room.top(), side, room.height()}, kExampleRanks, kExampleRanks, c,
             [](int row, int column) { return invented(row, column) * (column == 3 ? 1 : 0.7); });
  const int left_x = room.left() + side + kSpace12, max_width = room.right() - left_x;
  for (int rank = 0; rank < kExampleRanks; ++rank) {
    const bool fullest = rank == 3;
    const double share = fullest ? 1 : 0.55 + 0.2 * invented(rank, 3);
    const int top = room.top() + room.height() * rank / kExampleRanks;
    const int bottom = room.top() + room.height() * (rank + 1) / kExampleRanks;
    painter.fillRect(left_x, top + 1, static_cast<int>(max_width * share), bottom - top - 3,
                     QColor(fullest ? c.strong_bar : c.plain_bar));
  }
}

void paintFormat(QPainter& painter, const QRect& room, const QPalette& palette) {
  paintCells(painter, room, 3, 9, colors(palette),
             [](int row, int column) { return (column % 3 == 2 ? 0.55 : 0.22) + 0.2 * invented(row, column); });
}

using PaintExample = void (*)(QPainter& painter, const QRect& room, const QPalette& palette);

class StartExamplePicture : public QWidget {
 public:
  explicit StartExamplePicture(PaintExample paint) : paint_(paint) {
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  }
  QSize sizeHint() const override {
    return {withType(kExampleWidth, fontMetrics()), withType(kExampleHeight, fontMetrics())};
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    paint_(painter, rect(), palette());
  }

 private:
  PaintExample paint_;
};

constexpr int kPageWidth = 1040, kTopMargin = 56;

QLabel* words(const QString& text, Type type, bool semibold = false, bool muted = false) {
  auto* label = new QLabel(text);
  setType(label, type, semibold);
  if (muted) label->setForegroundRole(QPalette::PlaceholderText);
  return label;
}

QLabel* paragraph(const QString& text) {
  QLabel* label = words(text, Type::body, false, true);
  label->setWordWrap(true);
  return label;
}

QPushButton* button(const QString& text, const char* name, bool primary = false) {
  auto* made = new QPushButton(text);
  made->setObjectName(name);
  made->setProperty(kPrimaryProperty, primary);
  keepKeys(made);
  return made;
}

// The icon of a way to begin: an open book, a folder, or two columns.
class DoorIcon : public QWidget {
 public:
  enum class Kind { book, folder, columns };
  explicit DoorIcon(Kind kind) : kind_(kind) { setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed); }
  QSize sizeHint() const override {
    const int size = withType(static_cast<int>(Type::figure), fontMetrics());
    return {size, size};
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.scale(width() / 20.0, height() / 20.0);
    painter.setPen(QPen(QColor(colors(palette()).accent), 1.5, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
    if (kind_ == Kind::folder) {
      painter.drawPolygon(QPolygonF({{2, 4}, {8, 4}, {10, 6.5}, {18, 6.5}, {18, 16.5}, {2, 16.5}}));
    } else if (kind_ == Kind::columns) {
      painter.drawRect(QRectF(2, 3, 6.5, 14));
      painter.drawRect(QRectF(11.5, 3, 6.5, 14));
    } else {
      painter.drawPolyline(QPolygonF({{10, 5}, {7.5, 3.5}, {2, 3.5}, {2, 15}, {7.5, 15}, {10, 16.5}, {10, 5}}));
      painter.drawPolyline(QPolygonF({{10, 5}, {12.5, 3.5}, {18, 3.5}, {18, 15}, {12.5, 15}, {10, 16.5}}));
    }
  }

 private:
  Kind kind_;
};

QWidget* doorCard(DoorIcon::Kind icon, const QString& name, const QString& about, const QString& text,
                  QPushButton* press) {
  auto* card = new CardFrame;
  card->setAccessibleName(name);
  auto* column = plainColumn(card, kSpace4);
  column->setContentsMargins(kSpace24 - kSpace4, kSpace16, kSpace24 - kSpace4, kSpace24 - kSpace4);
  auto* head = plainRow(kSpace12);
  head->addWidget(new DoorIcon(icon));
  head->addWidget(words(name, Type::heading, true), 1);
  column->addLayout(head);
  QLabel* first = words(about, Type::body);
  first->setWordWrap(true);
  column->addWidget(first);
  column->addWidget(paragraph(text));
  column->addStretch(1);
  column->addSpacing(kSpace12);
  column->addWidget(press, 0, Qt::AlignLeft);
  return card;
}

QWidget* exampleCard(const QString& question, const QString& answer, PaintExample picture) {
  auto* card = new CardFrame;
  card->setAccessibleName(question + " Example of " + answer);
  auto* column = plainColumn(card, 0);
  column->setContentsMargins(kSpace16, kSpace12, kSpace16, kSpace16);
  QLabel* head = words(question, Type::body, true);
  head->setWordWrap(true);
  column->addWidget(head);
  column->addWidget(words(answer, Type::secondary, false, true));
  column->addStretch(1);
  column->addSpacing(kSpace8);
  column->addWidget(new StartExamplePicture(picture));
  return card;
}

}  // namespace

StartPage::StartPage(QWidget* parent) : QScrollArea(parent), page_(new QWidget) {
  setObjectName("start_page");
  setAccessibleName("Start page");
  setWidgetResizable(true);
  setFrameShape(QFrame::NoFrame);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  viewport()->setAutoFillBackground(false);
  auto* centred = new QWidget;
  auto* row = new QHBoxLayout(centred);
  row->setContentsMargins(kSpace24, 0, kSpace24, kSpace24);
  row->addStretch(1);
  row->addWidget(page_, 1000);
  row->addStretch(1);
  auto* column = plainColumn(page_, kSpace16);
  makeHead(column);
  makeDoors(column);
  makeTraining(column);
  makeExamples(column);
  makeSamples(column);
  column->addStretch(1);
  setWidget(centred);
  centred->setAutoFillBackground(false);
  followFont(page_, [this] { page_->setMaximumWidth(withType(kPageWidth, page_->fontMetrics())); });
  hide();
}

void StartPage::makeHead(QBoxLayout* column) {
  column->addSpacing(kTopMargin - kSpace16);
  auto* row = new QHBoxLayout;
  auto* texts = plainColumn(kSpace4);
  texts->addWidget(words("Nothing is open yet", Type::figure, true));
  texts->addWidget(paragraph("Train a small mixture of experts on this machine, or open what another program logged."));
  row->addLayout(texts, 1);
  last_ = button("Open the last run", "start_last");
  last_->hide();
  connect(last_, &QPushButton::clicked, this, [this] { emit lastRequested(last_files_); });
  row->addWidget(last_, 0, Qt::AlignBottom);
  column->addLayout(row);
}

void StartPage::makeDoors(QBoxLayout* column) {
  const Lesson lesson = find_lesson("1").lesson;
  QPushButton* take = button("Start the lesson", "start_lesson_1", true);
  QPushButton* open = button("Open...", "start_open");
  QPushButton* compare = button("Start the comparison", "start_compare");
  open->setToolTip("Opens recordings, logs and models (Ctrl+O)");
  connect(take, &QPushButton::clicked, this, &StartPage::lessonRequested);
  connect(open, &QPushButton::clicked, this, &StartPage::openRequested);
  connect(compare, &QPushButton::clicked, this, &StartPage::compareRequested);
  auto* row = plainRow(kSpace16);
  row->addWidget(doorCard(DoorIcon::Kind::book, "Take lesson 1", QString::fromStdString(lesson.title),
                          QString("Predict, do, watch: why a router without balancing starves its experts. %1 minutes, "
                                  "nothing to set up.")
                              .arg(lesson.minutes),
                          take),
                 1);
  row->addWidget(
      doorCard(DoorIcon::Kind::folder, "Open a log or a model", "Your own files",
               "Recordings, logs (JSON lines, TensorBoard, W&B, traces), tensors, and folders of models in Hugging "
               "Face format. Or drop them on the window.",
               open),
      1);
  row->addWidget(
      doorCard(DoorIcon::Kind::columns, "Compare precisions", "BF16, MXFP8 and MXFP4",
               "Three runs on the same batches and a noise twin. A verdict after 300 to 600 steps.", compare),
      1);
  column->addLayout(row);
}

void StartPage::makeTraining(QBoxLayout* column) {
  auto* card = new CardFrame;
  auto* row = plainRow(card, kSpace12);
  row->setContentsMargins(kSpace24 - kSpace4, kSpace16, kSpace24 - kSpace4, kSpace16);
  row->addWidget(words("Train now", Type::body, true));
  presets_ = new QComboBox;
  presets_->setObjectName("start_presets");
  presets_->setAccessibleName("Preset");
  for (const std::string& name : preset_names()) presets_->addItem(QString::fromStdString(name));
  presets_->setCurrentText("small");
  connect(presets_, &QComboBox::currentTextChanged, this, &StartPage::showCost);
  row->addWidget(presets_);
  cost_ = new FittedLabel;
  cost_->setObjectName("start_cost");
  cost_->setRole(QPalette::PlaceholderText);
  row->addWidget(cost_, 1);
  QPushButton* train = button("Train", "start_train");
  connect(train, &QPushButton::clicked, this, [this] { emit trainRequested(presets_->currentText()); });
  followPalette(this, [this, train] { train->setIcon(picture(Picture::play, palette())); });
  row->addWidget(train);
  auto* setup = new QToolButton;
  setup->setText("All settings");
  setup->setObjectName("start_setup");
  setup->setToolTip("Settings for a new run (F2)");
  setup->setFocusPolicy(Qt::StrongFocus);
  keepKeys(setup);
  connect(setup, &QToolButton::clicked, this, &StartPage::setupRequested);
  row->addWidget(setup);
  column->addWidget(card);
}

void StartPage::makeExamples(QBoxLayout* column) {
  column->addSpacing(kSpace8);
  auto* head = plainRow(kSpace8);
  head->addWidget(words("Questions of the Overview", Type::body, true));
  head->addWidget(words("Example data, not from your machine", Type::body, false, true), 1);
  column->addLayout(head);
  auto* row = plainRow(kSpace16);
  row->addWidget(exampleCard("Is it healthy?", "Verdict", paintVerdict), 1);
  row->addWidget(exampleCard("Is it learning?", "Loss", paintLoss), 1);
  row->addWidget(exampleCard("Who gets the tokens?", "Expert load", paintLoad), 1);
  row->addWidget(exampleCard("What does routing cost?", "All-to-all", paintAllToAll), 1);
  row->addWidget(exampleCard("What does the format cost?", "Quantization error", paintFormat), 1);
  column->addLayout(row);
}

void StartPage::makeSamples(QBoxLayout* column) {
  auto* row = plainRow(kSpace24);
  row->addWidget(words("Sample logs", Type::body, true));
  const auto add = [&](const QString& name, const QString& title, const QString& about) {
    QLabel* link = words(QString("<a href=\"%1\">%2</a>").arg(name, title), Type::body);
    link->setObjectName("start_sample");
    link->setTextInteractionFlags(Qt::LinksAccessibleByMouse | Qt::LinksAccessibleByKeyboard);
    link->setFocusPolicy(Qt::StrongFocus);
    link->setAccessibleName(title);
    connect(link, &QLabel::linkActivated, this, &StartPage::sampleRequested);
    auto* pair = plainRow(kSpace8);
    pair->addWidget(link);
    pair->addWidget(words(about, Type::body, false, true));
    row->addLayout(pair);
  };
  add("unbalanced_bf16.jsonl", "Unbalanced router", "8 layers × 64 experts, no balancing");
  add("domain_shift.jsonl", "Domain shift", "the text changes at step 700");
  row->addStretch(1);
  column->addLayout(row);
}

void StartPage::setCost(std::function<QStringList(const QString&)> cost) {
  costOf_ = std::move(cost);
  showCost();
}

void StartPage::showCost() {
  if (costOf_) cost_->setTexts(costOf_(presets_->currentText()));
}

void StartPage::showLast(const QStringList& files) {
  last_files_ = files;
  last_->setVisible(!files.isEmpty());
  if (files.isEmpty()) return;
  const QString more = files.size() > 1 ? QString(" and %1 more").arg(files.size() - 1) : QString();
  last_->setText("Open the last run: " + QFileInfo(files.first()).fileName() + more);
  last_->setToolTip(files.join('\n'));
}

void StartPage::showEvent(QShowEvent* event) {
  QScrollArea::showEvent(event);
  showCost();  // new speeds may have been measured
}

}  // namespace moescope
