import { useCallback, useEffect, useState } from "react";

const FIRST_USER = "ada";
const RECENT_MAX = 5;
const RECENT_KEY = "memlane.console.users";

function userOfUrl(): string {
  return new URLSearchParams(location.search).get("user")?.trim() || FIRST_USER;
}

function recentUsers(): string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(RECENT_KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((one): one is string => typeof one === "string") : [];
  } catch {
    return [];
  }
}

/** The user that this window shows. It stands in the URL, so that two windows can show two users. */
export function useUser(): { user: string; recent: readonly string[]; switchTo: (user: string) => void } {
  const [user, setUser] = useState(userOfUrl);
  const [recent, setRecent] = useState(recentUsers);

  useEffect(() => {
    const back = (): void => setUser(userOfUrl());
    addEventListener("popstate", back);
    return () => removeEventListener("popstate", back);
  }, []);

  useEffect(() => {
    setRecent((before) => {
      const next = [user, ...before.filter((one) => one !== user)].slice(0, RECENT_MAX);
      try {
        localStorage.setItem(RECENT_KEY, JSON.stringify(next));
      } catch {
        // A browser that keeps nothing only forgets the list of users.
      }
      return next;
    });
    document.title = `${user} · Memlane console`;
  }, [user]);

  const switchTo = useCallback((next: string) => {
    const url = new URL(location.href);
    url.searchParams.set("user", next);
    history.pushState(null, "", url);
    setUser(next);
  }, []);
  return { user, recent, switchTo };
}
