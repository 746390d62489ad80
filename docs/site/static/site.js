"use strict";
// Buttons that copy a block of code, and the choice of a version.

function copied(block) {
  const text = block.textContent.trimEnd();
  if (!block.closest(".highlight-console")) return text;
  const typed = text.split("\n").filter((line) => line.startsWith("$ "));
  return typed.map((line) => line.slice(2)).join("\n");
}

for (const block of document.querySelectorAll("div.highlight > pre")) {
  const button = document.createElement("button");
  button.className = "copy";
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(copied(block));
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  block.parentElement.append(button);
}

// What is wider than the screen is scrolled, also with the keyboard.
for (const box of document.querySelectorAll("pre, .table-wrapper")) {
  if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
}

// What Furo leaves out for readers of the screen.
for (const caption of document.querySelectorAll("[role=heading]")) caption.ariaLevel = "2";
document.querySelector("aside.sidebar-drawer")?.setAttribute("aria-label", "Pages");
document.querySelector("aside.toc-drawer")?.setAttribute("aria-label", "On this page");
for (const head of document.querySelectorAll("th")) {
  if (!head.textContent.trim()) head.replaceWith(document.createElement("td"));
}

async function offerVersions() {
  const root = new URL(document.documentElement.dataset.content_root, location);
  const reply = await fetch(new URL("../versions.json", root));
  const select = document.getElementById("version");
  const now = select.value;
  const versions = reply.ok ? await reply.json() : [];
  if (versions.length < 2) return;
  select.replaceChildren(...versions.map((one) => new Option(one, one, false, one === now)));
  select.addEventListener("change", () => {
    location.href = new URL(`../${select.value}/index.html`, root);
  });
  select.parentElement.hidden = false;
}

if (location.protocol.startsWith("http")) void offerVersions();
