"""How many recorded exchanges of each provider the readers are tried on, by surface.

``tests/wire/test_corpus.py`` counts them again where the recordings are.
"""

RECORDINGS = {
    "alibaba": {"chat": 3},
    "anthropic": {"messages": 100},
    "azure": {"chat": 38, "responses": 22},
    "bedrock": {"converse": 62, "invoke": 30},
    "bedrock-mantle": {"chat": 2, "responses": 8},
    "cerebras": {"chat": 7},
    "deepseek": {"chat": 53, "responses": 11},
    "google": {"chat": 2, "generate": 71},
    "groq": {"chat": 38},
    "huggingface": {"chat": 13},
    "mistral": {"chat": 44},
    "moonshot": {"chat": 2},
    "ollama": {"chat": 12},
    "openai": {"chat": 87, "responses": 89},
    "openrouter": {"chat": 79, "responses": 2},
    "perplexity": {"chat": 8},
    "together": {"chat": 6},
    "vercel-gateway": {"chat": 24},
    "vertex": {"generate": 43, "messages": 5},
    "xai": {"chat": 17, "responses": 26},
    "zai": {"chat": 15},
}

NAMES = {"gemini": "google", "gemini-vertex": "vertex"}
"""What the recordings call a provider."""
