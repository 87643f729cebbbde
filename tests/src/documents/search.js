"use strict";
const field = document.getElementById("search");
const found = document.getElementById("found");
const article = document.querySelector("article");
const details = document.querySelector("details");
details.open = window.matchMedia("(min-width: 50rem)").matches;

/** How well a section answers the words: 0 if one of them is lacking. */
function score(section, words) {
  const heading = (section.page + " " + section.heading).toLowerCase();
  const text = section.text.toLowerCase();
  let sum = 0;
  for (const word of words) {
    const hits = (heading.includes(word) ? 10 : 0) + Math.min(text.split(word).length - 1, 5);
    if (hits === 0) return 0;
    sum += hits;
  }
  return sum;
}

function excerpt(text, word) {
  const at = Math.max(text.toLowerCase().indexOf(word) - 60, 0);
  return (at > 0 ? "… " : "") + text.slice(at, at + 180) + (at + 180 < text.length ? " …" : "");
}

function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.replaceChildren();
  found.hidden = words.length === 0;
  article.hidden = words.length > 0;
  if (words.length === 0) return;
  const hits = SECTIONS.map((section) => [score(section, words), section]).filter(([points]) => points > 0);
  hits.sort(([a], [b]) => b - a);
  for (const [, section] of hits.slice(0, 20)) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = section.at;
    link.textContent = section.page === section.heading ? section.page : section.page + ": " + section.heading;
    link.addEventListener("click", () => { field.value = ""; search(); });
    const text = document.createElement("p");
    text.textContent = excerpt(section.text, words[0]);
    item.append(link, text);
    found.append(item);
  }
  if (hits.length === 0) {
    const item = document.createElement("li");
    item.textContent = "Nothing was found.";
    found.append(item);
  }
}

field.addEventListener("input", search);
