#include "app/start/start_page.h"

#include <QComboBox>
#include <QWidget>

#include "app/actions/run_costs.h"
#include "app/lessons/lesson_text.h"
#include "app/look/icons.h"
#include "app/setup/preset_list.h"
#include "app/setup/setup_form.h"
#include "app/start/lesson_list.h"
#include "widgets/look/layouts.h"
#include "widgets/look/tokens.h"

namespace moescope {
namespace {

constexpr int kRowNameWidth = 104, kButtonWidth = 152, kHeightWithSubjects = 900;
// By this step most seeds have verdicts on the two formats (docs/comparing-runs.md, assets/presets/compare).
constexpr int kVerdictStep = 300;

}  // namespace

StartPage::StartPage(QWidget* parent) : FullPage("start_page", "Start page", parent) {
  addLesson();
  addPreset();
  QPushButton* compare = pageButton("Start the comparison", "start_compare");
  connect(compare, &QPushButton::clicked, this, &StartPage::compareRequested);
  comparison_ = pageText({}, Type::body, true);
  addRow("Comparison", comparison_, compare);
  addFiles();
  column()->addWidget(pageText("Lessons"));
  lessons_ = new LessonList(LessonList::Form::titles);
  connect(lessons_, &LessonList::chosen, this, &StartPage::lessonRequested);
  column()->addWidget(lessons_);
  column()->addStretch(2);
  column()->insertStretch(0, 1);                                // in a high window the page stands above the middle
  connect(this, &FullPage::shown, this, &StartPage::showCost);  // new speeds may have been measured
}

// A tall page has room for the subjects of the lessons.
void StartPage::resizeEvent(QResizeEvent* event) {
  FullPage::resizeEvent(event);
  lessons_->showSubjects(height() >= withType(kHeightWithSubjects, fontMetrics()));
}

void StartPage::setBack(const QString& text) {
  FullPage::setBack(text);
  setHeading(text.isEmpty() ? "MoEScope" : "Start page",
             "Train a small mixture of experts, or open what another program logged (files can be dropped here). F1: "
             "manual. Ctrl+K: search.");
}

// Adds a row to the page. Returns its layout, for a second button before the first.
QBoxLayout* StartPage::addRow(const QString& name, QWidget* content, QPushButton* button) {
  auto* card = new CardFrame;
  card->setAccessibleName(name);
  auto* row = plainRow(card, kSpace12);
  row->setContentsMargins(kSpace16, kSpace8, kSpace8, kSpace8);
  QLabel* head = pageText(name);
  followFont(head, [head] { head->setFixedWidth(withType(kRowNameWidth, head->fontMetrics())); });
  row->addWidget(head);
  row->addWidget(content, 1);
  row->addWidget(button);
  followFont(button, [button] { button->setMinimumWidth(withType(kButtonWidth, button->fontMetrics())); });
  column()->addWidget(card);
  return row;
}

void StartPage::addLesson() {
  next_about_ = pageText({}, Type::body, true);
  next_ = pageButton({}, "start_lesson", true);
  connect(next_, &QPushButton::clicked, this, [this] { emit lessonRequested(next_lesson_); });
  QToolButton* all = flatButton(
      "Lessons and faults", "The subject of each lesson, and the faults of real trainings (Alt+L)", "start_lessons");
  connect(all, &QToolButton::clicked, this, &StartPage::lessonsRequested);
  addRow("Lesson", next_about_, next_)->insertWidget(2, all);
}

void StartPage::addPreset() {
  presets_ = new PresetList;
  presets_->setWords([](const QString& preset) { return PresetList::Words{presetSubject(preset), {}}; });
  presets_->setObjectName("start_presets");
  presets_->setAccessibleName("Preset");
  presets_->setCurrentText(kDefaultPreset);
  connect(presets_, &QComboBox::currentTextChanged, this, &StartPage::showCost);
  cost_ = pageText({}, Type::body, true);
  cost_->setObjectName("start_cost");
  auto* content = new QWidget;
  auto* both = plainRow(content, kSpace12);
  both->addWidget(presets_);
  both->addWidget(cost_, 1);
  QPushButton* train = pageButton("Train", "start_train");
  connect(train, &QPushButton::clicked, this, [this] { emit trainRequested(presets_->currentText()); });
  followPalette(this, [this, train] { train->setIcon(picture(Picture::play, palette())); });
  QToolButton* setup = flatButton("All settings", "Settings for a new run (F2)", "start_setup");
  connect(setup, &QToolButton::clicked, this, [this] { emit setupRequested(presets_->currentText()); });
  addRow("Preset", content, train)->insertWidget(2, setup);
}

void StartPage::addFiles() {
  const auto add = [this](const QString& name, const QString& about, const QString& what, const char* object,
                          auto signal) {
    QLabel* text = pageText(about, Type::body, true);
    text->setTextInteractionFlags(Qt::LinksAccessibleByMouse | Qt::LinksAccessibleByKeyboard);
    connect(text, &QLabel::linkActivated, this, &StartPage::sampleRequested);
    QPushButton* button = pageButton(what, object);
    connect(button, &QPushButton::clicked, this, signal);
    return addRow(name, text, button);
  };
  recent_ = flatButton("Recent files", {}, "start_recent");
  recent_->setPopupMode(QToolButton::InstantPopup);
  add("Log",
      "TorchTitan, Megatron-LM and others: JSON lines, TensorBoard, W&B, text, traces. Samples: <a "
      "href=\"unbalanced_bf16.jsonl\">router without balancing</a>, <a href=\"domain_shift.jsonl\">domain shift</a>",
      "Open a log...", "start_log", &StartPage::logRequested)
      ->insertWidget(2, recent_);
  add("Recording", "Every step of a run that was trained here (.moescope)", "Open a recording...", "start_recording",
      &StartPage::recordingRequested);
  add("Checkpoint", "Folder of a model of Hugging Face's transformers; your texts are run through the model",
      "Open a checkpoint...", "start_checkpoint", &StartPage::checkpointRequested);
}

void StartPage::setCosts(const RunCosts* costs) {
  costs_ = costs;
  showCost();
}

void StartPage::showCost() {
  if (!costs_) return;
  cost_->setText(costs_->presetText(presets_->currentText()));
  comparison_->setText(
      QString("Do MXFP8, NVFP4 and MXFP4 cost loss against BF16? Preset nano; a second BF16 run measures chance. "
              "First verdicts by step %1, %2.")
          .arg(kVerdictStep)
          .arg(costs_->timeText("precisions", kVerdictStep)));
}

void StartPage::showProgress(const LessonProgress& progress) {
  lessons_->showProgress(progress);
  const NextLesson next = nextLesson(progress);
  next_->setText(next.button);
  next_lesson_ = next.name;
  next_about_->setText(progress.finished.isEmpty() && progress.steps.isEmpty()
                           ? "Predict a result, do the experiment, see the figure. First: " + next.about
                           : progressText(progress) + ". Next: " + next.about);
}

}  // namespace moescope
